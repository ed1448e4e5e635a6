"""Options of a training run: a preset, changes to it, and where and how to run it. This module does not need torch."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from frn.errors import FrnError
from frn.training.presets import PAPER, Preset, find_preset
from frn.training.presets.preset import Regulariser, overlay, read_settings

PRECISIONS = ("auto", "fp32", "bf16")
OF_EPISODES = ("method", "way", "shot", "queries", "aux", "freeze")
"""Options that pre-training does not use."""
OF_THE_RUN = ("seed", "precision", "compiled", "images", "init")
"""Entries of `config.toml` outside the preset; the first two are options, the others describe the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunOptions:
    """Options of `frn train`; None keeps the preset's value."""

    preset: str
    data: list[Path] | None = None
    """Data sets; the first one is also used for validation."""
    out: Path | None = None
    method: str | None = None
    backbone: str | None = None
    way: int | None = None
    shot: int | None = None
    queries: int | None = None
    epochs: int | None = None
    """Number of epochs; milestones scale with it."""
    lr: float | None = None
    warm_up: int | None = None
    aux: Literal["reference", "paper", "off"] | None = None
    freeze: str | None = None
    """FRN parameters that keep their initial value: none, lambda, rho or both."""
    seed: int | None = None
    """None is the seed of the file, or 0."""
    precision: str | None = None
    """None is the precision of the file, or "auto"."""
    device: str = "auto"
    threads: int | None = None
    resume: bool = False
    init: str | None = None
    """Model to start from."""
    config: Path | None = None
    """TOML file of settings, named as in a run's `config.toml`; the options above take precedence."""

    @property
    def wanted_precision(self) -> str:
        """Return `precision`, with "auto" as float32 for the paper's recipe, as its authors used."""
        wanted, papers = self.precision or "auto", self.preset.lower().replace("_", "-") in PAPER
        return "fp32" if papers and wanted == "auto" else wanted

    @property
    def folder(self) -> Path:
        """Return the run's folder, `runs/PRESET` by default."""
        return self.out or Path("runs") / self.preset.rpartition(":")[2]

    def overridden(self) -> Preset:
        """Return the preset with its changes. Raises FrnError if it does not exist or a change does not fit it."""
        return self.override(find_preset(self.preset))

    def configured(self) -> "RunOptions":
        """Return the options with the seed and precision of the file, or their defaults, unless given as options."""
        table = read_settings(self.config) if self.config is not None else {}
        if type(seed := table.get("seed", 0)) is not int or seed < 0:
            raise FrnError(f"{self.config}: seed is {seed!r}, but must be 0 or more")
        if (precision := table.get("precision", "auto")) not in PRECISIONS:
            raise FrnError(f"{self.config}: precision is {precision!r}, but must be one of {', '.join(PRECISIONS)}")
        return replace(self, seed=seed if self.seed is None else self.seed, precision=self.precision or precision)

    def override(self, preset: Preset) -> Preset:
        """Return a preset with the changes. Raises FrnError if a change does not fit it."""
        if self.config is not None:
            table = read_settings(self.config)
            settings = {name: value for name, value in table.items() if name not in OF_THE_RUN}
            preset = overlay(preset, settings, str(self.config), whole="images" in table)
        schedule = preset.schedule.scaled_to(self.epochs) if self.epochs else preset.schedule
        shape = {name: getattr(self, name) for name in ("way", "shot", "queries") if getattr(self, name) is not None}
        if self.lr is not None:
            schedule = replace(schedule, learning_rate=self.lr)
        aux = self.aux or preset.aux
        if self.method:
            from frn.heads import has_auxiliary_loss, require_trainable, warm_up_of  # imported here: they need torch

            require_trainable(self.method)
            if not self.aux and not has_auxiliary_loss(self.method):
                aux = "off"
            elif not self.aux and not has_auxiliary_loss(preset.method):
                aux = "reference"
            if self.warm_up is None and preset.trains_on_episodes and not schedule.warm_up:
                schedule = replace(schedule, warm_up=warm_up_of(self.method))
        fixed = tuple(name for name in get_args(Regulariser) if self.freeze in (name, "both"))
        return replace(
            preset,
            method=self.method or preset.method,
            aux=aux,
            fixed=preset.fixed if self.freeze is None else fixed,
            backbone=self.backbone or preset.backbone,
            episode=replace(preset.episode, **shape),
            schedule=schedule if self.warm_up is None else replace(schedule, warm_up=self.warm_up),
        )

    def check(self) -> None:
        """Raise FrnError for options that cannot work, before anything is read."""
        name, preset = self.preset, self.overridden()
        idle = () if preset.trains_on_episodes else OF_EPISODES
        if useless := [f"--{option}" for option in idle if getattr(self, option) is not None]:
            raise FrnError(f"{useless[0]} has no effect, because preset {name!r} pre-trains. Remove it.")
        if self.backbone is not None and ":" in self.backbone:
            raise FrnError(
                f"--backbone {self.backbone}: pretrained backbones cannot be trained. "
                f"`frn models add {self.backbone}` adds one as a model, which needs no training."
            )
        if (start := preset.pretraining.init_from) and self.init is None and not self.resume:
            recipe, colon, _ = name.rpartition(":")
            first = f"{recipe}{colon}{start}"
            raise FrnError(
                f"preset {name!r} starts from another run: run `frn train {first} --out RUN` first, then "
                "pass its result with --init RUN"
            )
        if self.data and preset.data.prepare is None:
            raise FrnError(
                f"preset {name!r} renders its own images, so --data has no effect. Remove it, or choose "
                "another preset: `frn presets` lists them."
            )
        if (prepare := preset.data.prepare) is not None and not self.data:
            raise FrnError(
                f"preset {name!r} needs --data DIR with train/ and {preset.validation.split}/ "
                f"(`frn data prepare {prepare} --help` makes one). `frn train demo` needs no data."
            )
