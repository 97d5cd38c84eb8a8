import pytest

from fairaudit.config.model_names import MODELS, known_facts, layer_sizes, resolve_model
from fairaudit.errors import ConfigError
from fairaudit.models.zoo import make_model


def parameter_count(*model):
    return sum(out * (into + 1) for out, into, _ in layer_sizes(*model))


@pytest.mark.parametrize("name", MODELS)
def test_the_size_told_before_training_is_the_models(name):
    shape = (9, 7, 3) if name == "cnn" else (20,)
    model = make_model(name, shape, 4, hidden=(6, 5), activation="tanh", seed=0)
    assert parameter_count(name, shape, 4, (6, 5)) == sum(p.numel() for p in model.parameters())


def test_the_network_of_the_paper_has_the_size_that_it_prints_for_celeba():
    """Its figure for MNIST, 80,522, is no such network's; the published code gives 97,114."""
    assert parameter_count("cnn", (64, 64, 3), 2, ()) == 120_722
    assert parameter_count("cnn", (28, 28, 1), 10, ()) == 97_114
    assert parameter_count("mlp", (98,), 2, (256, 256)) == 91_650


def test_the_default_is_by_the_data():
    assert resolve_model("auto", None) == "logistic"
    assert resolve_model("auto", (28, 28, 1)) == "cnn"
    assert resolve_model("mlp", (28, 28, 1)) == "mlp"
    assert resolve_model("my.models:small", None) == "my.models:small"


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("logistik", None, "unknown model 'logistik'"),
        ("cnn", None, "needs images"),
        ("cnn", (4, 28, 1), "too small"),
    ],
)
def test_a_model_that_cannot_be_is_refused_before_training(name, shape, message):
    with pytest.raises(ConfigError, match=message) as caught:
        resolve_model(name, shape)
    assert caught.value.hint


def test_a_tables_model_has_no_size_before_the_table_is_encoded():
    assert known_facts("mlp", None, 2, (5,)).parameters is None
    facts = known_facts("cnn", (28, 28, 1), 10, ())
    assert facts.parameters == 97_114
    assert facts.products == 26 * 26 * 9 * 32 + 24 * 24 * 288 * 16 + 24 * 24 * 16 * 10
