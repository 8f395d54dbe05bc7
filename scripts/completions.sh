#!/usr/bin/env bash
# Writes the scripts with which shells complete commands and flags of once into a folder.
# usage: completions.sh DIR
set -euo pipefail
mkdir -p "$1"
program=$(mktemp)
trap 'rm -f "$program"' EXIT
go build -o "$program" ./cmd/once/full/once
for shell in bash zsh fish powershell; do
	"$program" completion "$shell" >"$1/once.$shell"
done
