#!/usr/bin/env bash
# Spark needs Java 17 or newer. Says nothing if it is there; installs a headless one where apt-get
# may be used without asking; otherwise says what to install.
set -euo pipefail

need=17

# The Java that Spark would start: JAVA_HOME's, else the one on the path. 0 where there is none.
major() {
  local java=${JAVA_HOME:+$JAVA_HOME/bin/}java
  "$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | grep -m 1 . || echo 0
}

fits() { [ "$(major)" -ge "$need" ]; }

# Runs as root, or through sudo if that asks for no password.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install() {
  command -v apt-get >/dev/null || return 1
  as_root true 2>/dev/null || return 1
  echo "Installing a Java runtime with apt-get" >&2
  as_root apt-get update -qq >/dev/null 2>&1 || true
  local package
  for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
    as_root env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "$package" >/dev/null 2>&1 && return 0
  done
  return 1
}

fits && exit 0
if [ -n "${JAVA_HOME:-}" ]; then
  echo "JAVA_HOME names no Java $need or newer: let it name one, or unset it." >&2
  exit 1
fi
if install && hash -r && fits; then exit 0; fi
found=$(major)
if [ "$found" -eq 0 ]; then found="no Java"; else found="Java $found"; fi
echo "Headwater needs Java $need or newer for Spark, and found $found." >&2
echo "Install a runtime (Debian and Ubuntu: openjdk-17-jre-headless; macOS: brew install openjdk@17)" >&2
echo "or let JAVA_HOME name one." >&2
exit 1
