"""Names: in any case, with or without the organisation, the user's own first."""

from __future__ import annotations

import os

import pytest

from kvplan.errors import KvplanError, SpecError, UnknownModelError
from kvplan.load import load_model
from kvplan.spec import catalogue as catalogue_module
from kvplan.spec.catalogue import Catalogue
from kvplan.spec.folder import SpecFolder


def write(folder, name, *, hf_ids=(), aliases=(), layers=1, file=None):
    folder.mkdir(exist_ok=True)
    (folder / f"{file or name}.yaml").write_text(
        f"name: {name}\nhf_ids: [{', '.join(hf_ids)}]\naliases: [{', '.join(aliases)}]\n"
        f"dtype: bfloat16\nmax_context: 100\nlayers: {layers}\n"
        "attention: {kv_heads: 1, head_dim: 8}\n"
    )


@pytest.fixture
def builtin(tmp_path, monkeypatch):
    """A small catalogue in the place of the one that ships."""
    folder = tmp_path / "builtin"
    write(folder, "lama-8b", hf_ids=["Meta/Lama-8B", "meta/Lama-8B-it"], aliases=["lama8"])
    write(folder, "lama-70b", hf_ids=["meta/Lama-70B"])
    write(folder, "alpha-tune", hf_ids=["alpha/Tune-7B"])
    write(folder, "beta-tune", hf_ids=["beta/Tune-7B"])
    monkeypatch.setattr(catalogue_module, "builtin_folder", lambda: SpecFolder(str(folder)))
    return folder


@pytest.mark.parametrize(
    "query",
    [
        "lama-8b", "LAMA-8B", " lama-8b ", "lama8", "Lama8", "Meta/Lama-8B", "meta/lama-8b",
        "META/LAMA-8B-IT", "Lama-8B-it",
    ],
)  # fmt: skip
def test_a_model_answers_to_its_name_aliases_and_ids(builtin, query):
    """In any case; an id without its organisation too."""
    assert Catalogue([]).find(query).name == "lama-8b"


@pytest.mark.parametrize("query", ["", " ", "/", "lama", "8b", "lama-8", "other/lama-8b", "meta/"])
def test_a_part_of_a_name_is_no_name(builtin, query):
    """Nothing is guessed; another organisation is another model."""
    with pytest.raises(UnknownModelError, match="no model is called"):
        Catalogue([]).find(query)


def test_a_full_id_decides_between_models_of_the_same_short_name(builtin):
    """`Tune-7B` of two makers."""
    assert Catalogue([]).find("beta/tune-7b").name == "beta-tune"


def test_an_ambiguous_name_lists_the_models(builtin):
    """Each candidate is a name that can be asked for."""
    with pytest.raises(UnknownModelError) as caught:
        Catalogue([]).find("tune-7b")

    assert caught.value.ambiguous
    assert caught.value.candidates == ("alpha-tune", "beta-tune")
    assert str(caught.value) == (
        "'tune-7b' is the name of 2 models\nhint: one of alpha-tune, beta-tune"
    )


def test_two_specs_of_one_name_are_told_apart_by_their_files(builtin):
    """Their names would say nothing; the paths can be asked for."""
    write(builtin, "lama-8b", file="copy")

    with pytest.raises(UnknownModelError) as caught:
        Catalogue([]).find("lama-8b")

    files = (str(builtin / "copy.yaml"), str(builtin / "lama-8b.yaml"))
    assert caught.value.candidates == files


@pytest.mark.parametrize("query", ["lama-8bb", "llama-8b", "lama_8b", "lama-8B-itt"])
def test_a_near_miss_names_the_closest(builtin, query):
    """The likely one is among the candidates and in the hint."""
    with pytest.raises(UnknownModelError) as caught:
        Catalogue([]).find(query)

    assert caught.value.candidates[0].lower().startswith(("lama-8b", "meta/lama-8b"))
    assert caught.value.hint.startswith("did you mean ")


def test_a_name_like_nothing_points_at_the_list(builtin):
    """No invented similarity."""
    with pytest.raises(UnknownModelError) as caught:
        Catalogue([]).find("zzzzzzzz")

    assert caught.value.candidates == ()
    assert caught.value.hint == "`kvplan models` lists all"


def test_the_users_own_folder_goes_first(builtin, tmp_path):
    """The same name, another model: 9 layers instead of 1."""
    write(tmp_path / "own", "lama-8b", layers=9)

    found = load_model("lama-8b", specs=[str(tmp_path / "own")])

    assert len(found.spec.layers) == 9
    assert found.origin == str(tmp_path / "own" / "lama-8b.yaml")


def test_the_first_of_several_folders_wins(builtin, tmp_path):
    """In the order in which they are given."""
    write(tmp_path / "a", "mine", layers=2)
    write(tmp_path / "b", "mine", layers=3)
    folders = [str(tmp_path / "b"), str(tmp_path / "a")]

    assert len(load_model("mine", specs=folders).spec.layers) == 3


def test_the_catalogue_is_still_there_behind_the_users_folder(builtin, tmp_path):
    """A folder adds to it."""
    write(tmp_path / "own", "mine")

    assert load_model("lama-70b", specs=[str(tmp_path / "own")]).spec.name == "lama-70b"


def test_the_environment_names_folders_when_no_option_does(builtin, tmp_path, monkeypatch):
    """KVPLAN_SPECS holds one or several, as PATH does."""
    write(tmp_path / "a", "first", layers=2)
    write(tmp_path / "b", "second", layers=3)
    value = os.pathsep.join((str(tmp_path / "a"), "", str(tmp_path / "b")))
    monkeypatch.setenv("KVPLAN_SPECS", value)

    assert len(load_model("first").spec.layers) == 2
    assert len(load_model("second").spec.layers) == 3


def test_an_option_replaces_the_environment(builtin, tmp_path, monkeypatch):
    """`--specs` given, KVPLAN_SPECS is not looked at."""
    monkeypatch.setenv("KVPLAN_SPECS", str(tmp_path / "missing"))
    write(tmp_path / "own", "mine")

    assert load_model("mine", specs=[str(tmp_path / "own")]).spec.name == "mine"


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("x")])
def test_a_spec_folder_that_is_none_is_an_error(builtin, tmp_path, make):
    """A misspelt folder would otherwise mean the wrong model."""
    make(tmp_path / "specs")

    with pytest.raises(SpecError, match="specs: the spec folder does not exist or is no folder"):
        Catalogue([str(tmp_path / "specs")])


def test_an_edit_in_the_users_folder_takes_effect_at_once(builtin, tmp_path):
    """The next lookup reads the new layers and the new alias."""
    own = tmp_path / "own"
    write(own, "mine", layers=2)
    assert len(load_model("mine", specs=[str(own)]).spec.layers) == 2
    write(own, "mine", layers=3, aliases=["yours"])

    assert len(load_model("yours", specs=[str(own)]).spec.layers) == 3


def test_a_path_is_read_as_a_file_whatever_the_catalogue_says(builtin, tmp_path, monkeypatch):
    """`./lama-8b.yaml` is a file, `lama-8b` a name, even beside a file of that name."""
    write(tmp_path, "mine", layers=5, file="lama-8b")
    (tmp_path / "lama-8b").write_text("]")
    monkeypatch.chdir(tmp_path)

    assert len(load_model("./lama-8b.yaml").spec.layers) == 5
    assert len(load_model("lama-8b").spec.layers) == 1


def test_a_file_without_an_ending_is_found_when_no_model_has_its_name(
    builtin, tmp_path, monkeypatch
):
    """A bare word is a name first, then a file."""
    write(tmp_path, "mine", layers=5)
    (tmp_path / "mine.yaml").rename(tmp_path / "plain")
    monkeypatch.chdir(tmp_path)

    assert load_model("plain").spec.name == "mine"


def test_a_missing_file_is_no_unknown_name(builtin):
    """What ends like a file is one."""
    with pytest.raises(KvplanError, match=r"^nowhere/x\.yaml: does not exist$"):
        load_model("nowhere/x.yaml")


@pytest.mark.parametrize("make", ["pipe", "device", "entry"])
def test_an_index_in_a_folder_of_the_users_own_is_not_read(tmp_path, make):
    """Nothing vouches for it: a pipe would hang, a device never ends, a stale entry may be bad."""
    folder = tmp_path / "own"
    write(folder, "mine", layers=3)
    index = folder / "index.tsv"
    if make == "pipe":
        os.mkfifo(index)
    elif make == "device":
        index.symlink_to("/dev/zero")
    else:
        size = (folder / "mine.yaml").stat().st_size
        index.write_text(f'{{\n"mine.yaml": {{"size": {size}, mine broken}}\n}}\n')
        os.utime(folder / "mine.yaml", (0, 0))

    assert Catalogue([str(folder)]).find("mine").spec().layers == ("attention",) * 3


def test_folders_of_the_users_own_may_begin_at_home(tmp_path, monkeypatch):
    """No shell expands a `~` inside a variable, nor after another folder of a list."""
    write(tmp_path / "specs", "mine", layers=3)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KVPLAN_SPECS", "~/specs")

    assert Catalogue().find("mine").file == str(tmp_path / "specs" / "mine.yaml")
