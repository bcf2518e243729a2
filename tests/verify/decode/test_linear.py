"""Linear attention: the form with a state and the form without one are the same function."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from kvplan.verify.decode.linear import Inputs, at_once, carried  # noqa: E402


def inputs(*, delta: bool, element: bool) -> Inputs:
    lot = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=lot)

    q, k, v = normal(2, 20, 3, 4), normal(2, 20, 3, 4), normal(2, 20, 3, 5)
    k = torch.nn.functional.normalize(k, dim=-1)
    decay = torch.exp(-0.2 * torch.sigmoid(normal(2, 20, 3, 4 if element else 1)))
    strength = torch.sigmoid(normal(2, 20, 3, 1)) if delta else None
    return Inputs(q, k, v, decay, strength)


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("element", [False, True])
def test_both_forms_agree(delta: bool, element: bool) -> None:
    """Twenty tokens, with and without the delta rule, one decay per head or per element."""
    given = inputs(delta=delta, element=element)

    walked, _ = carried(given, torch.zeros(2, 3, 4, 5), torch.float32)

    assert torch.allclose(walked, at_once(given), atol=1e-5)


def test_two_tokens_by_hand() -> None:
    """Decay 1/2, strength 1, the same unit key twice: the second value replaces the first."""
    one = torch.ones(1, 2, 1, 1)
    v = torch.tensor([3.0, 5.0]).view(1, 2, 1, 1)

    plain, state = carried(Inputs(one, one, v, one / 2, None), torch.zeros(1, 1, 1, 1), v.dtype)
    delta = at_once(Inputs(one, one, v, one / 2, one))

    assert plain.flatten().tolist() == [3.0, 3.0 / 2 + 5.0]
    assert state.item() == 6.5
    assert delta.flatten().tolist() == pytest.approx([3.0, 5.0])
