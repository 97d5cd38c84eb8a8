import pytest
import torch

from fairaudit.engine.optimizers import OPTIMIZERS

TORCH = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("strided", [False, True], ids=["whole", "view of a buffer"])
def test_an_optimizer_moves_as_pytorchs_does_step_by_step(name, strided):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(2, 50, generator=generator)
    theta, parameter = start.clone(), torch.nn.Parameter(start.clone())
    ours, theirs = OPTIMIZERS[name](0.05), TORCH[name]([parameter])
    buffer = torch.empty(2, 3, 50)
    for step in range(30):
        gradient = torch.randn(2, 50, generator=generator) * 10.0 ** ((step % 5) - 2)
        parameter.grad = gradient.clone()
        theirs.step()
        handed = buffer[:, 0] if strided else buffer.view(-1)[:100].view(2, 50)
        handed.copy_(gradient)
        ours.step(theta, handed)
        buffer.fill_(torch.nan)  # the engine overwrites its buffer: nothing may be kept of it
        torch.testing.assert_close(theta, parameter.detach(), rtol=1e-5, atol=1e-6)
