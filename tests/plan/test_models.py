"""The catalogue as a list that can be filtered."""

from __future__ import annotations

import pytest

from kvplan.errors import SpecError
from kvplan.plan.models import list_models
from kvplan.spec import catalogue as catalogue_module
from kvplan.spec.folder import SpecFolder

FULL = "attention: {kv_heads: 1, head_dim: 8}"
MLA = (
    "attention: [{kind: latent, kv_lora_rank: 8, qk_rope_head_dim: 8},"
    " {kind: indexer, head_dim: 8}]"
)


@pytest.fixture(autouse=True)
def catalogue(tmp_path, monkeypatch):
    """Three models of two families."""
    folder = tmp_path / "builtin"
    folder.mkdir()
    for name, family, attention in (
        ("beta", "Greek", FULL),
        ("alpha", "Greek", MLA),
        ("one", "numbers", FULL),
    ):
        (folder / f"{name}.yaml").write_text(
            f"name: {name}\nhf_ids: [Maker/{name}-7B]\nfamily: {family}\nheads: 4\nlayers: 2\n"
            f"{attention}\n"
        )
    monkeypatch.setattr(catalogue_module, "builtin_folder", lambda: SpecFolder(str(folder)))
    return folder


def names(**filters):
    return [spec.name for spec in list_models(**filters)]


def test_all_models_are_listed_by_name():
    """Without a filter."""
    assert names() == ["alpha", "beta", "one"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"family": "greek"}, ["alpha", "beta"]),
        ({"family": "GREE"}, ["alpha", "beta"]),
        ({"family": "reek"}, []),
        ({"attention": "mla"}, ["alpha"]),
        ({"attention": "MLA+sparse-indexer(DSA)"}, ["alpha"]),
        ({"attention": "sparse-indexer"}, ["alpha"]),
        ({"attention": "mqa"}, ["beta", "one"]),
        ({"attention": "ml"}, []),
        ({"search": "maker/b"}, ["beta"]),
        ({"search": "7b"}, ["alpha", "beta", "one"]),
        ({"family": "greek", "attention": "mqa"}, ["beta"]),
        ({"family": "greek", "search": "one"}, []),
    ],
)
def test_every_filter_must_match(filters, found):
    """Family: how it begins; attention: the label or a part of it; search: a text in a name."""
    assert names(**filters) == found


def test_the_users_own_spec_hides_the_one_of_the_same_name(tmp_path):
    """One line per name."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "beta.yaml").write_text(f"name: beta\nfamily: mine\nheads: 4\nlayers: 9\n{FULL}\n")
    found = {spec.name: spec for spec in list_models(specs=[str(own)])}

    assert len(found) == 3
    assert len(found["beta"].layers) == 9
    assert names(family="greek", specs=[str(own)]) == ["alpha"]


def test_a_file_that_is_no_spec_is_told_and_the_others_are_listed(tmp_path):
    """Broken YAML, and YAML that breaks the vocabulary."""
    (tmp_path / "broken.yaml").write_text("name: [\n")
    (tmp_path / "wrong.yaml").write_text("name: wrong\nlayers: 0\nattention: {kind: none}\n")
    (tmp_path / "mine.yaml").write_text("name: mine\nlayers: 1\nattention: {kind: none}\n")
    told: list[str] = []

    found = list_models(specs=[str(tmp_path)], left_out=told.append)

    assert "mine" in [spec.name for spec in found]
    assert len(told) == 2
    assert "wrong.yaml:2:9: layers is 0" in told[0]
    assert "broken.yaml:2:1: is not valid YAML" in told[1]
    with pytest.raises(SpecError, match=r"wrong\.yaml:2:9"):
        list_models(specs=[str(tmp_path)])
