"""Data of a real S3 server, of pipes, of patterns; addresses that are not read."""

import io
import os
import pickle
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from people import plain_columns
from pyarrow import fs
from refusals import refused_in_one_line
from stores import breaking_wire

from fairaudit.config.addresses import Address
from fairaudit.config.options import AuditConfig, data_name
from fairaudit.config.value_sources import resolve_config
from fairaudit.data.reading import elsewhere
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import ConfigError, DataError, OutputError

KEYS = {
    "AWS_ACCESS_KEY_ID": "ACCESSID",
    "AWS_SECRET_ACCESS_KEY": "VERYSECRET",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_DEFAULT_REGION": "us-east-1",
}


@pytest.fixture(scope="module")
def port():
    """The port of a server of S3 with a table, the same in parts, and a larger one."""
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    store = fs.S3FileSystem(
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        allow_bucket_creation=True,
        access_key="ACCESSID",
        secret_key="VERYSECRET",
    )
    store.create_dir("bank")
    table = pa.table(plain_columns())
    noise = np.random.default_rng(1).bytes(12_000_000)  # several pieces
    for name, content in {
        "bank/people.parquet": parquet(table),
        "bank/people.csv": table.to_pandas().to_csv(index=False).encode(),
        "bank/parts/sex=F/0.parquet": parquet(table.filter(pa.array(FEMALE)).drop_columns("sex")),
        "bank/parts/sex=M/0.parquet": parquet(
            table.filter(pa.array([not f for f in FEMALE])).drop_columns("sex")
        ),
        "bank/years/a1.csv": table.slice(0, 20).to_pandas().to_csv(index=False).encode(),
        "bank/years/a2.csv": table.slice(20).to_pandas().to_csv(index=False).encode(),
        "bank/years/b1.csv": b"other,columns\n1,2\n",
        "bank/large.csv": b"sex,income,x\n" + noise.hex().encode(),
    }.items():
        with store.open_output_stream(name) as stream:
            stream.write(content)
    yield port
    server.stop()


FEMALE = [k % 2 == 0 for k in range(40)]


def parquet(table):
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


@pytest.fixture
def s3(port, monkeypatch):
    """Addresses lead to the server; copies of other tests are forgotten."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}.items():
        monkeypatch.setenv(name, value)
    elsewhere._copy_of.cache_clear()
    yield
    elsewhere._copy_of.cache_clear()


def loaded(data, **options):
    return load_dataset(AuditConfig(data=data, group=("sex",), label="income", **options))


@pytest.mark.parametrize(
    "name",
    [
        "people.parquet",
        "people.csv",
        "parts",
        "parts/",
        "years/a*.csv",
        "years/a*.csv?region=eu-west-1",
    ],
)
def test_a_store_gives_what_a_file_gives(s3, tmp_path, name):
    read = loaded(f"s3://bank/{name}")
    pq.write_table(pa.table(plain_columns()), tmp_path / "people.parquet")
    file = loaded(tmp_path / "people.parquet")
    assert read.n_rows == 40
    assert read.groupings[0].names == file.groupings[0].names
    of_women = np.flatnonzero(read.groupings[0].groups == 0)
    assert read.labels[of_women].mean() == 0.5
    assert sorted(read.features["height"].to_pylist()) == sorted(
        file.features["height"].to_pylist()
    )
    if name.startswith("people.parquet"):
        assert read.digest == file.digest
        assert read.name == "people.parquet"


def test_a_pattern_keeps_the_parameters_behind_it(s3, port, monkeypatch):
    monkeypatch.delenv("AWS_ENDPOINT_URL")  # so that the parameters alone say where the server is
    server = f"scheme=http&endpoint_override=127.0.0.1:{port}"
    assert loaded(f"s3://bank/years/a*.csv?{server}").n_rows == 40


@pytest.mark.parametrize("address", ["s3://bank/none.parquet", "s3://nobody/x.csv", "s3://bank/z*"])
def test_nothing_there_is_one_line(s3, address):
    with refused_in_one_line(DataError, "at 's3://"):
        loaded(address)


@pytest.mark.slow  # for six seconds its client asks again
def test_a_store_that_breaks_off_is_one_line_and_leaves_nothing(port, s3, monkeypatch):
    before = set(elsewhere.scratch().iterdir())
    with breaking_wire(port, after=6_000_000) as wire:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{wire}")
        with refused_in_one_line(DataError, "s3://bank/large.csv") as caught:
            loaded("s3://bank/large.csv")
    assert "broke off" in caught.value.message
    assert "SECRET" not in str(caught.value)
    assert set(elsewhere.scratch().iterdir()) == before


@pytest.mark.slow
def test_the_command_ends_with_two_and_one_line_where_the_store_dies(port, tmp_path):
    with breaking_wire(port, after=6_000_000) as wire:
        env = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{wire}"}
        env["TMPDIR"] = str(tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "fairaudit", "inspect", "s3://bank/large.csv"],
            env=env,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_run_of_an_address_is_taken_up_from_the_same_trainings(port, s3, tmp_path):
    command = [
        *(sys.executable, "-m", "fairaudit", "run", "--data", "s3://bank/people.parquet"),
        *("--group", "sex", "--label", "income", "--method", "dpsgd", "--seeds", "2"),
        *("--epochs", "1", "--batch-size", "8", "--workers", "1", "--twins", "off"),
        *("--epsilon", "8", "--delta", "0.01", "--out", "out", "--format", "json"),
    ]
    texts = []
    for _ in range(2):
        subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
        texts.append((tmp_path / "out" / "report.json").read_text())
        jobs = {path: path.stat().st_mtime_ns for path in (tmp_path / "out/jobs").glob("*.safe*")}
        texts.append(jobs)
    assert texts[1] == texts[3]
    assert "s3://bank/people.parquet" in texts[0]
    assert "SECRET" not in texts[0]


def test_an_address_is_what_was_typed():
    address = AuditConfig(data="s3://bank/a/people.parquet?region=eu").data
    assert isinstance(address, Address)
    assert str(address) == "s3://bank/a/people.parquet?region=eu"
    assert (address.name, data_name(address)) == ("people.parquet", "people")
    assert str(pickle.loads(pickle.dumps(address))) == str(address)
    assert str(AuditConfig(data=str(address)).data) == str(address)
    assert str(AuditConfig(data=Path("gs://bank/x.csv")).data) == "gs://bank/x.csv"
    assert AuditConfig(data="file:///tmp/a%20b.csv").data == Path("/tmp/a b.csv")
    assert AuditConfig(data="file://localhost/tmp/x.csv").data == Path("/tmp/x.csv")
    assert AuditConfig(data="file:///localhost/x.csv").data == Path("/localhost/x.csv")
    assert AuditConfig(data="dir/c:d.csv").data == Path("dir/c:d.csv")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("https://user:VERYSECRET@x.org/loans.csv?token=VERYSECRET", "curl -LO"),
        ("http://x.org/loans.csv", "curl -LO"),
        ("hf://datasets/scikit-learn/adult/adult.csv", "hf download scikit-learn/adult"),
        ("s3://ID:VERYSECRET@bank/people.csv", "credentials"),
        ("s3://bank/people.csv?secret_key=VERYSECRET", "credentials"),
        ("abfs://account:VERYSECRET@host/people.csv", "credentials"),
        ("s3://ID:VERY/SECRET@bank/people.csv", "may hold a password"),
        ("s3://ID:/VERYSECRET@bank/people.csv", "may hold a password"),
        ("s3://ID:VERY#SECRET@bank/people.csv", "may hold a password"),
        ("s3://ID:VERY[SECRET@bank/people.csv", "credentials"),
        ("abfs://account:12/VERYSECRET@host/people.csv", "may hold a password"),
        ("hdfs://me:VERY/SECRET@host:8020/people.csv", "may hold a password"),
        ("https://user:VERY/SECRET@x.org/loans.csv", "curl -LO ADDRESS"),
        ("hf://user:VERY/SECRET@datasets/scikit-learn/adult/adult.csv", "scikit-learn/adult"),
        ("ssh://host/people.csv", "ssh addresses are not read"),
    ],
)
def test_other_addresses_are_one_line_that_says_what_to_do(address, said):
    with refused_in_one_line(ConfigError, said) as caught:
        AuditConfig(data=address)
    assert "SECRET" not in str(caught.value).replace("AWS_SECRET_ACCESS_KEY", "")


@pytest.mark.parametrize(
    "address",
    [
        "s3://bank/a:b@c.csv",
        "abfs://container@host/a:b@c.csv",
        "hdfs://me@host:8020/a@b.csv",
        "hdfs://host:8020/a:b@c.csv",
    ],
)
def test_a_file_may_have_a_colon_and_an_at_in_its_name(address):
    assert str(AuditConfig(data=address).data) == address


@pytest.mark.parametrize("option", ["data", "public_data", "synthetic"])
def test_a_found_file_may_not_name_an_address(tmp_path, option):
    text = f'{option} = "s3://bank/people.parquet"\n'
    (tmp_path / "fairaudit.toml").write_text(text + ('data = "a.csv"\n' * (option != "data")))
    with refused_in_one_line(ConfigError, "--trust-config"):
        resolve_config({}, folder=tmp_path)
    trusted = resolve_config({}, folder=tmp_path, trust_config=True).config
    assert str(getattr(trusted, option)) == "s3://bank/people.parquet"


# --- pipes and patterns


def stream(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


PIPED = {
    "csv": lambda table: table.to_pandas().to_csv(index=False).encode(),
    "parquet": parquet,
    "arrow": stream,
}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("csv", "-"),
        ("parquet", "/dev/stdin"),
        ("arrow", "-"),
        pytest.param("csv", "/dev/stdin", marks=pytest.mark.slow),
        pytest.param("parquet", "-", marks=pytest.mark.slow),
        pytest.param("arrow", "/dev/stdin", marks=pytest.mark.slow),
    ],
)
def test_a_pipe_is_read(tmp_path, kind, name):
    done = subprocess.run(
        [sys.executable, "-m", "fairaudit", "inspect", name, "--group", "sex", "--json"],
        input=PIPED[kind](pa.table(plain_columns())),
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert b'"rows": 40' in done.stdout


def test_an_empty_pipe_is_one_line(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fairaudit", "inspect", "-"],
        input=b"",
        capture_output=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1


class Breaking(io.BytesIO):
    """A pipe that breaks off after its first bytes."""

    def read(self, size=-1):
        if self.tell():
            raise OSError(5, "Input/output error")
        return super().read(3)


def test_a_pipe_that_breaks_off_is_not_told_as_a_full_disk(tmp_path):
    with refused_in_one_line(DataError, "reading 'pipe' broke off"):
        elsewhere._copy_of_stream(Breaking(b"a,b\n1,2\n"), tmp_path, "'pipe'")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_copy_of_a_pipe_without_room_is_an_output_error(tmp_path):
    (tmp_path / "stdin.csv").symlink_to("/dev/full")
    with refused_in_one_line(OutputError, "the disk is full"):
        elsewhere._copy_of_stream(io.BytesIO(b"a,b\n1,2\n"), tmp_path, "'pipe'")


def test_a_socket_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the path of a socket must be short
    with socket.socket(socket.AF_UNIX) as one, refused_in_one_line(DataError, "'people'"):
        one.bind("people")
        loaded("people")


def test_a_pattern_of_files(tmp_path):
    whole = pa.table(plain_columns()).to_pandas()
    for name, rows in (("a1", slice(0, 20)), ("a2", slice(20, 40)), ("b", slice(0, 3))):
        whole[rows].to_csv(tmp_path / f"{name}.csv.gz", index=False)
    assert loaded(tmp_path / "a*.csv.gz").n_rows == 40
    with refused_in_one_line(DataError, "no file fits"):
        loaded(tmp_path / "c*.csv")


def test_a_copy_without_room_is_an_output_error(s3, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(elsewhere.tempfile, "mkdtemp", full)
    with refused_in_one_line(OutputError, "the disk is full"):
        loaded("s3://bank/people.csv")


def test_a_name_that_leads_out_of_the_folder_is_not_copied():
    assert elsewhere._leads_out("../evil.csv")
    assert not elsewhere._leads_out("a..b/c.csv")
