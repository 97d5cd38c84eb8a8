import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused_in_one_line

from fairaudit.cli import app
from fairaudit.config.options import AuditConfig, data_name
from fairaudit.config.value_sources import OptionLayer, merge_layers, resolve_config
from fairaudit.errors import ConfigError


def resolve(tmp_path, environment=None, **options):
    options.setdefault("data", "loans.parquet")
    return resolve_config(options, environment=environment or {}, folder=tmp_path)


def test_each_place_yields_to_the_stronger_one(tmp_path):
    strong = tmp_path / "strong.toml"
    (tmp_path / "pyproject.toml").write_text("[tool.fairaudit]\nepochs = 2\n")
    assert resolve(tmp_path, preset="esipova-dutch").config.epochs == 2
    (tmp_path / "fairaudit.toml").write_text("epochs = 3\n")
    assert resolve(tmp_path).config.epochs == 3
    strong.write_text("epochs = 4\n")
    by_file = resolve_config({"data": "x.csv"}, environment={}, folder=tmp_path, config_file=strong)
    assert by_file.config.epochs == 4
    environment = {"FAIRAUDIT_EPOCHS": "5", "FAIRAUDIT_CONFIG": str(strong)}
    by_variable = resolve(tmp_path, environment)
    assert (by_variable.config.epochs, by_variable.origins["epochs"]) == (5, "environment")
    by_option = resolve(tmp_path, environment, epochs=6)
    assert (by_option.config.epochs, by_option.origins["epochs"]) == (6, "option")
    assert by_option.origins["batch_size"] == "default"


def test_an_empty_variable_sets_nothing(tmp_path):
    assert resolve(tmp_path, {"FAIRAUDIT_EPOCHS": ""}).origins["epochs"] == "default"


def test_variables_carry_lists_and_tables(tmp_path):
    environment = {
        "FAIRAUDIT_METHOD": "dpsgd, global",
        "FAIRAUDIT_KEEP": "F=0.5",
        "FAIRAUDIT_SETTINGS": "global.threshold=7",
        "FAIRAUDIT_BIN": "age=18,30,pay=q4",
        "FAIRAUDIT_CONTRAST": "age=<=25",
        "FAIRAUDIT_INTERSECT": "true",
    }
    config = resolve(tmp_path, environment).config
    assert config.method == ("dpsgd", "global")
    assert config.keep == {"F": 0.5}
    assert config.settings == {"global": {"threshold": 7.0}}
    assert (config.bin, config.contrast) == ({"age": "18,30", "pay": "q4"}, {"age": "<=25"})
    assert config.intersect is True


def test_dashes_and_single_values_are_accepted_in_files(tmp_path):
    (tmp_path / "fairaudit.toml").write_text('group = "sex"\nbatch-size = 64\nepsilon = 2\n')
    config = resolve(tmp_path).config
    assert (config.group, config.batch_size, config.epsilon) == (("sex",), 64, (2.0,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epochz = 3", "unknown key 'epochz' in fairaudit.toml (did you mean 'epochs'?)"),
        ("epochs = 'ten'", "epochs = 'ten' (fairaudit.toml) does not fit"),
        ("epochs = true", "epochs = true in fairaudit.toml"),
        ("epsilon = [3, true]", "epsilon = true in fairaudit.toml"),
        ("epochs = 0", "epochs = 0 (fairaudit.toml) does not fit"),
        ("missing = 'dropp'", "'impute', 'drop' or 'error'"),
        ("format = ['jsn']", "format = 'jsn' (fairaudit.toml) does not fit"),
        (
            "epsilon = [1]\nnoise_multiplier = 1",
            "epsilon and noise_multiplier are both set in fairaudit.toml",
        ),
        ("settings = 3", "settings in fairaudit.toml must be one table per method"),
        ("epochs = ", "fairaudit.toml is not valid TOML"),
        ("preset = 'esipova-adlt'", "did you mean 'esipova-adult'?"),
    ],
)
def test_a_bad_file_gives_one_line_that_names_it(tmp_path, text, said):
    (tmp_path / "fairaudit.toml").write_text(text)
    with refused_in_one_line(ConfigError, said) as caught:
        resolve(tmp_path)
    assert "pydantic" not in str(caught.value)


def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'FAIRAUDIT_EPOCHS'"):
        resolve(tmp_path, {"FAIRAUDIT_EPOCH": "3"})


def test_a_stronger_epsilon_removes_a_weaker_noise_multiplier(tmp_path):
    resolved = resolve(tmp_path, preset="esipova-adult", epsilon=[2.0])
    assert resolved.config.epsilon == (2.0,)
    assert resolved.config.noise_multiplier is None
    assert resolved.origins["noise_multiplier"] == "default"


def test_a_stronger_noise_multiplier_removes_a_weaker_epsilon(tmp_path):
    (tmp_path / "fairaudit.toml").write_text("epsilon = 2\n")
    resolved = resolve(tmp_path, noise_multiplier=1.5)
    assert (resolved.config.epsilon, resolved.config.noise_multiplier) == ((), 1.5)
    assert resolved.origins["epsilon"].startswith("not used")


@pytest.mark.parametrize("name", ["learning_rate", "max_grad_norm", "threshold"])
def test_a_plain_option_silences_the_presets_numbers_of_that_name(tmp_path, name):
    assert name == "max_grad_norm" or any(
        name in numbers
        for numbers in resolve(tmp_path, preset="esipova-adult").config.settings.values()
    )
    resolved = resolve(tmp_path, preset="esipova-adult", **{name: 0.25})
    assert getattr(resolved.config, name) == 0.25
    assert not any(name in numbers for numbers in resolved.config.settings.values())
    assert resolved.config.settings["global-adapt"]["tolerance"] == 1.0


def test_settings_beside_a_plain_option_of_the_same_layer_are_kept():
    file = OptionLayer(
        "file", {"data": "x", "learning_rate": 1.0, "settings": {"sgd": {"learning_rate": 2.0}}}
    )
    assert merge_layers([file]).config.settings == {"sgd": {"learning_rate": 2.0}}


def test_settings_merge_number_by_number():
    strong = OptionLayer("option", {"data": "x", "settings": {"global": {"threshold": 9}}})
    weak = OptionLayer(
        "preset p", {"settings": {"global": {"threshold": 1.0, "learning-rate": 2.0}}}
    )
    merged = merge_layers([strong, weak])
    assert merged.config.settings == {"global": {"threshold": 9.0, "learning_rate": 2.0}}
    assert merged.origins["settings"] == "option, preset p"


@pytest.mark.parametrize("option", [{"epsilon": [3.0]}, {"max_grad_norm": 0.5}])
def test_a_file_whose_settings_an_option_removes_is_not_said_to_set_any(tmp_path, option):
    numbers = {"epsilon": "noise_multiplier = 1.5", "max_grad_norm": "max_grad_norm = 2.0"}
    (tmp_path / "fairaudit.toml").write_text(f"[settings.dpsgd]\n{numbers[next(iter(option))]}\n")
    assert resolve(tmp_path).options_by_file == {"fairaudit.toml": ["settings"]}
    resolved = resolve(tmp_path, **option)
    assert resolved.config.settings == {}
    assert (resolved.origins["settings"], resolved.settings_origins) == ("default", {})
    assert resolved.options_by_file == {}


def test_settings_come_from_the_places_whose_numbers_are_in_force():
    strong = OptionLayer("option", {"data": "x", "learning_rate": 1.0})
    middle = OptionLayer("environment", {"settings": {"global": {"threshold": 9}}})
    weak = OptionLayer("preset p", {"settings": {"global": {"learning_rate": 2.0}}})
    for layers, origin in [
        ([strong, middle, weak], "environment"),
        ([strong, weak, middle], "environment"),
        ([strong, weak], "default"),
    ]:
        assert merge_layers(layers).origins["settings"] == origin


@pytest.mark.parametrize("value", ["3", "true", '"epochs = 3"', "[{epochs = 3}]"])
def test_a_pyproject_whose_entry_is_no_table_is_refused(tmp_path, value):
    (tmp_path / "pyproject.toml").write_text(f"[tool]\nfairaudit = {value}\n")
    with pytest.raises(ConfigError, match=r"tool\.fairaudit = .* must be a table of options"):
        resolve(tmp_path)


def test_a_pyproject_of_other_tools_sets_no_options(tmp_path):
    for text in ("", "tool = 3\n", "[tool]\nruff = 3\n"):
        (tmp_path / "pyproject.toml").write_text(text)
        assert resolve(tmp_path).options_by_file == {}


def test_rules_of_the_environment_are_separated_by_semicolons_for_a_pair_of_groups_has_a_comma():
    given = {"FAIRAUDIT_FAIL_ON": "tpr_gap@race=A,B > 0.1; epsilon > 3"}
    resolved = resolve_config({"data": "x.csv"}, environment=given)
    assert resolved.config.fail_on == ("tpr_gap@race=A,B > 0.1", "epsilon > 3")


# The text of a file, and what the message says of it: code, writing elsewhere, and sending the data
# away.
REACHES = {
    'model = "module:factory"': "runs code",
    'out = "../elsewhere"': "lies outside",
    'out = "/somewhere/else"': "lies outside",
    'out = "link/below"': "lies outside",
    'executor = "ray"\nray_address = "ray://elsewhere:10001"': "is sent the data",
    'inconclusive = "pass"': "lets rules pass",
    "trust_claimed_epsilon = true": "vouches for a claim",
    "trust_module = true": "vouches for code",
}
OWN = {  # what wins over the file is the user's own decision
    "model": {"model": "mlp"},
    "out": {"out": "/wanted"},
    "ray_address": {"ray_address": "auto"},
    "inconclusive": {"inconclusive": "fail"},
    "trust_claimed_epsilon": {"trust_claimed_epsilon": False},
    "trust_module": {"trust_module": False},
}


@pytest.fixture
def found(tmp_path):
    """A folder that may have come with the data."""
    folder = tmp_path / "found"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    return folder


@pytest.mark.parametrize(("text", "said"), REACHES.items())
@pytest.mark.parametrize("name", ["fairaudit.toml", "pyproject.toml"])
def test_a_file_that_was_only_found_decides_nothing_beyond_the_audit(found, name, text, said):
    path = found / name
    path.write_text(text if name == "fairaudit.toml" else f"[tool.fairaudit]\n{text}")
    with pytest.raises(ConfigError) as caught:
        resolve(found)
    field = text.splitlines()[-1].split(" ")[0]
    assert f"{name} sets {field} = " in str(caught.value)
    assert said in str(caught.value)
    for way in ("--trust-config", f"--config {name}", "--" + field.replace("_", "-")):
        assert way in caught.value.hint
    expected = text.split("= ")[-1].strip('"')
    ways: dict[str, dict[str, object]] = {
        "the option": {"trust_config": True},
        "named by hand": {"config_file": path},
        "named by hand in a variable": {"environment": {"FAIRAUDIT_CONFIG": str(path)}},
    }
    for how, way in ways.items():
        config = resolve_config({"data": "x.csv"}, folder=found, **way).config  # type: ignore[arg-type]
        assert str(getattr(config, field)).casefold() == expected, how
    own = resolve(found, **OWN[field]).config
    assert str(getattr(own, field)) == str(OWN[field][field])
    by_variable = resolve(found, {f"FAIRAUDIT_{field.upper()}": str(OWN[field][field])}).config
    assert by_variable == own


@pytest.mark.parametrize(
    "text",
    [
        'model = "mlp"',
        'out = "reports/x"',
        'out = "."',
        'executor = "ray"',
        "epochs = 3",
        'inconclusive = "fail"',
    ],
)
def test_a_file_that_was_found_sets_what_only_shapes_the_audit(found, text):
    (found / "fairaudit.toml").write_text(text)
    key, value = text.split(" = ")
    assert str(getattr(resolve(found).config, key)) == value.strip('"')


DEEP = "a = " + "[" * 5000 + "]" * 5000


def test_a_file_of_options_that_is_nested_a_pipe_or_without_end_is_refused(found):
    (found / "deep.toml").write_text(DEEP)
    os.mkfifo(found / "pipe.toml")
    (found / "zero.toml").symlink_to("/dev/zero")
    with open(found / "large.toml", "wb") as file:
        file.truncate(2**30)
    for name, said in (
        ("deep", "nested too deeply"),
        ("pipe", "not a regular file"),
        ("zero", "not a regular file"),
        ("large", "larger than"),
    ):
        path = found / f"{name}.toml"
        with pytest.raises(ConfigError, match=rf"{path.name} .*{said}"):
            resolve_config({"data": "x.csv"}, config_file=path)
        with pytest.raises(ConfigError, match=rf"{path.name} .*{said}"):
            resolve_config({"data": "x.csv", "columns": path})
    with pytest.raises(ConfigError, match=r"^\. cannot be read"):
        resolve_config({"data": "x.csv"}, config_file=Path())
    (found / "fairaudit.toml").write_text(DEEP)
    with pytest.raises(ConfigError, match="nested too deeply"):
        resolve(found)


MODULE = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


@pytest.mark.parametrize("command", ["run", "plan"])
def test_no_command_imports_what_a_found_file_names(found, monkeypatch, capsys, command):
    (found / "planted.py").write_text(MODULE)
    (found / "fairaudit.toml").write_text(
        'model = "planted:factory"\ndata = "gone.csv"\ngroup = "sex"\n'
    )
    monkeypatch.chdir(found)
    monkeypatch.setattr("fairaudit.audit.warm_up", lambda: None)
    before = signal.getsignal(signal.SIGTERM)
    assert app.main([command]) == 2
    assert "planted:factory" in capsys.readouterr().err
    assert app.main([command, "--trust-config"]) == 2  # further, to the data that are not there
    assert "gone.csv" in capsys.readouterr().err
    signal.signal(signal.SIGTERM, before)
    assert not (found / "ran").exists()


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("loans.parquet", "loans"),
        ("data/images/", "images"),
        ("-rf.csv", "rf"),
        ("../..", "data"),
        (".", "data"),
        ("a b;$(rm)|\x1b\n.csv", "a-b-rm"),
        ("caf\u00e9.csv", "caf\u00e9"),
        ("x" * 300 + ".csv", "x" * 60),
        ("..", "data"),
        ("a/.../b.csv", "b"),
        ("\udcff.csv", "data"),
    ],
)
def test_results_lie_in_a_folder_that_is_named_after_the_data(data, name):
    assert AuditConfig(data=data).out == Path("fairaudit-report") / name


@given(st.text(min_size=1).filter(lambda text: "\0" not in text))
def test_that_name_is_one_plain_part_of_a_path(data):
    name = data_name(Path(data))
    assert Path(name).parts == (name,)
    assert name not in {".", ".."}
    assert name[0] not in "-."
    assert all(c.isalnum() or c in "-_." for c in name)


def test_names_of_columns_are_one_word_of_a_command():
    from fairaudit.config.option_words import words_of

    assert list(words_of("names", ("age", "sex"))) == ["--names", "age,sex"]
    assert list(words_of("names", ("a,b", "c"))) == ["--names", "a,b", "--names", "c"]
    assert list(words_of("group", ("a", "b"))) == ["--group", "a", "--group", "b"]
