"""Words that options take, for Typer's help and checks."""

from typing import Literal

Method = Literal["frn", "proto", "dsn", "ctx", "covariance", "simpleshot", "cosine", "ridge", "bifrn", "deepemd"]
Device = Literal["auto", "cpu", "cuda"]
PrecisionChoice = Literal["auto", "fp32", "bf16"]
ExportPrecision = Literal["fp32", "fp16", "int8"]
Aux = Literal["reference", "paper", "off"]
Regularisers = Literal["none", "lambda", "rho", "both"]
