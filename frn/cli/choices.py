"""Words that options take, for Typer's help and checks."""

from typing import Literal

Method = Literal["frn", "proto"]
Device = Literal["auto", "cpu", "cuda"]
PrecisionChoice = Literal["auto", "fp32", "bf16"]
