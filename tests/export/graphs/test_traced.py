"""Networks and heads exported by tracing."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from frn_export.graphs.backbone import features_graph
from frn_export.graphs.builder import FLOAT, GraphBuilder
from frn_export.graphs.traced import write_traced
from frn_export.graphs.traced_head import traced_head_graph
from frn_export.parity import compare_features
from torch import Tensor
from torchvision import models

from frn.errors import FrnError
from frn.estimator.few_shot import FewShotClassifier
from frn.features.extractor import Extractor
from frn.features.onnx_runtime import TRACED_HEAD, check_model, open_session, run_session
from frn.heads import Head
from frn.models.model import Model, import_pretrained, save_model
from frn.ridge.parameters import HeadParameters
from tests.commands import frn


def imported(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> Model:
    """Build a network with random weights; transformers have one layer."""
    whole = models.VisionTransformer

    def small(**options: Any) -> models.VisionTransformer:
        return whole(**{**options, "num_layers": 1, "num_heads": 3, "hidden_dim": 48, "mlp_dim": 96})

    monkeypatch.setattr("torchvision.models.vision_transformer.VisionTransformer", small)
    options = {"image_size": size} if name.startswith("vit") else {}
    net = models.get_model(name, weights=None, **options)
    torch.save(net.state_dict(), folder / f"{name}.pth")
    return import_pretrained(f"torchvision:{name}", folder / f"{name}.pth", size=size)


def test_traced_network_equals_torch_in_one_file_with_checked_operators(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = imported("resnet18", tmp_path, monkeypatch, 64)
    first, again = (features_graph(model).SerializeToString(deterministic=True) for _ in range(2))
    assert first == again
    compare_features(model, first).require()
    check_model(first, "the file")
    assert b"site-packages" not in first
    assert str(Path.home()).encode() not in first
    assert b".py" not in first
    graph = onnx.load_model_from_string(first)
    assert [(opset.domain, opset.version) for opset in graph.opset_import] == [("", 18)]
    extractor = Extractor(first, "the file", device="cpu")
    pixels = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), dtype=np.uint8)
    together = extractor.feature_maps(pixels)
    for image, maps in zip(pixels, together, strict=True):  # any number of images
        np.testing.assert_allclose(extractor.feature_maps(image[None])[0], maps, atol=1e-5 * np.abs(together).max())


@pytest.mark.nightly
def test_weights_file_is_exported_and_classifies(tmp_path: Path, moths: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = imported("resnet18", tmp_path, monkeypatch, 64)
    save_model(model, tmp_path / "m.safetensors")
    out, classes = tmp_path / "out", moths / "test"
    words = ["export", "--model", str(tmp_path / "m.safetensors"), "--out", str(out), "--classes", str(classes)]
    result = frn(*words)
    assert result.exit_code == 0, result.output
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "| backbone | torchvision:resnet18 |" in card
    assert "weights of torchvision:resnet18 from resnet18.pth (SHA-256 " in card

    photo = classes / "moth 40" / "00.png"
    result = frn("classify", classes, photo, "--model", out / "features.onnx", "--json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    fitted = FewShotClassifier(out / "features.onnx").fit(
        {folder.name: sorted(folder.iterdir()) for folder in sorted(classes.iterdir())}
    )
    assert fitted.classifier_.head != HeadParameters()
    assert told["label"] == fitted.predict([photo])[0] == "moth 40"
    import onnxruntime
    from PIL import Image

    session = onnxruntime.InferenceSession(out / "classifier.onnx", providers=["CPUExecutionProvider"])
    (shares,) = session.run(["probability"], {"image": np.asarray(Image.open(photo).convert("RGB"))})
    pixels = np.asarray(Image.open(photo).convert("RGB"))  # an example is classified by leave-one-out
    np.testing.assert_allclose(shares, fitted.predict_proba([pixels])[0], atol=0.02)


@pytest.mark.nightly
def test_an_untrained_head_is_tuned_on_the_validation_split(
    tmp_path: Path, moths: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_model(imported("resnet18", tmp_path, monkeypatch, 64), tmp_path / "m.safetensors")
    words = ["eval", str(tmp_path / "m.safetensors"), "--data", str(moths), "--shot", "1", "--queries", "5"]
    result = frn(*words, "--episodes", "20", "--json")
    assert result.exit_code == 0, result.output
    (found,) = json.loads(result.stdout)["results"]
    assert found["head"] != {"alpha": 0.0, "beta": 0.0, "gamma": 1.0}
    assert found["accuracy"] > 20


class Attending(torch.nn.Module):
    """An attention layer, which torch computes as one fused operator that ONNX lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.TransformerEncoderLayer(3, 1, 8, batch_first=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = self.layer(images.flatten(2).transpose(1, 2))
        return tokens.transpose(1, 2).reshape(images.shape[0], 3, 8, 8).repeat(1, 1, 1, 2)


class Small(torch.nn.Module):
    """A network whose shapes, constants and optional inputs are less regular than those of real ones."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.tensor([0.5, 1.5, 2.5]))
        self.same = torch.nn.Parameter(torch.tensor([0.5, 1.5, 2.5]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        n = images.shape[0]
        columns = self.bias.expand(n, 3)[:, :, None, None] * self.same.expand(n, 3)[:, :, None, None]
        twice = torch.cat([images, images]).reshape(2 * n, 3, 64)
        most, places = twice.reshape(n, 2, 3, 8, 8).topk(1, dim=1)  # two outputs
        both = (most + places)[:, 0, :, ::2] + torch.zeros(n, 1, 1, 1)  # a constant that grows with n
        ramp = torch.arange(n, dtype=torch.float32).reshape(n, 1, 1, 1) * 0.0
        large = torch.nn.functional.interpolate(both, scale_factor=2.0)  # an empty input
        return large + columns + ramp + self.bias.expand(2 * n, 3)[:n, :, None, None]


def small(network: torch.nn.Module) -> onnx.ModelProto:
    graph = GraphBuilder("t_")
    maps = write_traced(graph, "photos", network, 8)
    graph.node("Identity", maps, output="out")
    return graph.model(
        {"photos": (FLOAT, ("n", 3, 8, 8))}, {"out": (FLOAT, ("n", 3, 8, 16))}, {}, "small", kind="small"
    )


@pytest.mark.parametrize("kind", [Small, Attending])
def test_traced_graph_follows_the_number_of_images(kind: type[torch.nn.Module]) -> None:
    network = kind().eval().requires_grad_(False)
    model = small(network)
    assert torch.backends.mha.get_fastpath_enabled()
    for n in (1, 2, 3, 5):
        images = torch.rand(n, 3, 8, 8)
        (found,) = run_session(open_session(model.SerializeToString(), "x"), ["out"], {"photos": images.numpy()})
        np.testing.assert_allclose(found, network(images).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("padding", "kinds"),
    [
        (torch.nn.ZeroPad2d((0, 1, 2, 1)), ["Conv"]),
        (torch.nn.ZeroPad2d((-1, 1, 0, 0)), ["Pad", "Conv"]),
        (torch.nn.ConstantPad3d((0, 1, 0, 1, 0, 1), 0.0), ["Pad", "Conv"]),
        (torch.nn.ConstantPad2d((0, 1, 0, 1), 0.5), ["Pad", "Conv"]),
        (torch.nn.ReflectionPad2d((0, 1, 0, 1)), ["Pad", "Conv"]),
    ],
)
def test_convolution_adds_zeros_before_it_itself(padding: torch.nn.Module, kinds: list[str]) -> None:
    channels = 4 if isinstance(padding, torch.nn.ConstantPad3d) else 3
    network = torch.nn.Sequential(padding, torch.nn.Conv2d(channels, 5, 3, stride=2, padding=(1, 0))).eval()
    images = torch.rand(2, 3, 8, 8)
    with torch.no_grad():
        wanted = network(images)
    graph = GraphBuilder("t_")
    graph.node("Identity", write_traced(graph, "photos", network, 8), output="out")
    model = graph.model(
        {"photos": (FLOAT, ("n", 3, 8, 8))}, {"out": (FLOAT, ("n", *wanted.shape[1:]))}, {}, "small", kind="small"
    )
    assert [node.op_type for node in model.graph.node] == [*kinds, "Identity"]
    (found,) = run_session(open_session(model.SerializeToString(), "x"), ["out"], {"photos": images.numpy()})
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-6)


def test_number_of_images_is_not_computed_where_a_reshape_infers_it() -> None:
    class Wide(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            wide = images.reshape(images.shape[0], 3, 4, 16)
            return torch.cat([wide, wide], 2)

    assert "Shape" not in {node.op_type for node in small(Wide()).graph.node}


def test_dimension_that_is_not_a_multiple_of_the_number_of_images_is_refused() -> None:
    class OneMore(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return images.mean((1, 2, 3))[:, None] + torch.zeros(1).expand(images.shape[0] + 1)

    with pytest.raises(FrnError, match=r"neither is fixed nor grows with the number of images\)$"):
        write_traced(GraphBuilder("t_"), "images", OneMore(), 8)


def test_failed_export_prints_nothing_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    class Spread(torch.nn.Module):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.diag_embed(images)

    with pytest.raises(FrnError, match="cannot be exported as ONNX"):
        write_traced(GraphBuilder("t_"), "images", Spread(), 32)
    assert capfd.readouterr().out == ""


D = 4


def graph_of(head: Head) -> onnx.ModelProto:
    """Trace a head over maps of 1 x 2 locations."""
    model: Any = SimpleNamespace(grid=(1, 2), d=D, config=SimpleNamespace(method="own"), head=head)
    return traced_head_graph(model)


class Traced:
    """A traced head in onnxruntime."""

    def __init__(self, head: Head) -> None:
        self.session = open_session(graph_of(head).SerializeToString(), "head.onnx", device="cpu")

    def __call__(self, support: Tensor, query: Tensor) -> np.ndarray:
        inputs = {"support": support.numpy(), "query": query.numpy()}
        (logits,) = run_session(self.session, ["logits"], inputs)
        return logits


class Solving(Head):
    """Logits 2 q^T A^-1 q for each query's mean q and A = S^T S + I of each class."""

    def __init__(self, solve: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.solve = solve
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        pool = support.flatten(1, 2)
        system = pool.mT @ pool + torch.eye(D, dtype=pool.dtype)
        right = query.mean(1).mT.expand(system.shape[0], -1, -1)  # way, d, q
        return self.scale * self.solve(system, right).sum(1).mT


def by_triangle(system: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(torch.linalg.cholesky(system), right, upper=False).square()


def by_turned_system(system: Tensor, right: Tensor) -> Tensor:
    turn = torch.tensor([[0.0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 2], [0, 0, -2, 0]])
    return right * torch.linalg.solve(system + turn, right)


SOLUTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cholesky_solve": lambda system, right: right * torch.cholesky_solve(right, torch.linalg.cholesky(system)),
    "cholesky_ex": lambda system, right: right * torch.cholesky_solve(right, torch.linalg.cholesky_ex(system)[0]),
    "cholesky_inverse": lambda system, right: right * (torch.cholesky_inverse(torch.linalg.cholesky(system)) @ right),
    "solve_triangular": by_triangle,
    "solve": by_turned_system,
}


@pytest.mark.parametrize("name", SOLUTIONS)
def test_solution_equals_that_of_torch_for_any_episode(name: str) -> None:
    head = Solving(SOLUTIONS[name])
    run = Traced(head)
    torch.manual_seed(0)
    for way, shot, queries in ((3, 2, 4), (1, 5, 2), (6, 1, 1)):
        support, query = torch.randn(way, shot, 2, D), torch.randn(queries, 2, D)
        with torch.no_grad():
            expected = head(support, query).numpy()
        np.testing.assert_allclose(run(support, query), expected, rtol=1e-4, atol=1e-5)


class Failing(Head):
    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        system = support[:, 0, 0, :, None] * torch.eye(D)
        failed = torch.linalg.cholesky_ex(system)[1]
        return failed.float().expand(query.shape[0], -1)


def test_system_with_nan_is_reported_as_failed() -> None:
    support = torch.ones(3, 1, 2, D)
    support[1, 0, 0, 2] = torch.nan
    assert Traced(Failing())(support, torch.ones(2, 2, D)).tolist() == [[0, 1, 0]] * 2


class Diagonal(Head):
    """The inverse of a diagonal matrix in double precision."""

    def forward(self, support: Tensor, query: Tensor) -> Tensor:
        system = support[:, 0, 0, :, None].double() * torch.eye(D, dtype=torch.float64)
        return torch.cholesky_inverse(torch.linalg.cholesky(system)).sum(1).float()


def test_inverse_is_exact_down_to_ten_orders_of_magnitude() -> None:
    values = torch.tensor([[1.0, 1e-3, 1e-7, 1e-10], [1e4, 1e4, 1e-6, 3.0]])
    found = Traced(Diagonal())(values[:, None, None].expand(-1, 1, 2, -1).contiguous(), torch.ones(2, 2, D))
    np.testing.assert_allclose(found, 1 / values.numpy(), rtol=1e-6)


def test_file_names_its_method_and_shapes() -> None:
    graph = graph_of(Failing())
    assert {p.key: p.value for p in graph.metadata_props}["frn.method"] == "own"
    assert {p.key: p.value for p in graph.metadata_props}["frn.format"] == TRACED_HEAD
    shapes = [[d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.graph.input]
    assert shapes == [["way", "shot", 2, D], ["q", 2, D]]


def test_unsupported_head_prints_nothing_on_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    class Embedded(Head):
        def forward(self, support: Tensor, query: Tensor) -> Tensor:
            return torch.diag_embed(support[:, 0, 0])

    with pytest.raises(FrnError, match="diag_embed"):
        graph_of(Embedded())
    assert capfd.readouterr().out == ""
