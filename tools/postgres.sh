#!/usr/bin/env bash
# Some tests run a PostgreSQL server. Says nothing if one is installed; installs Debian's where apt-get may be used without
# asking; otherwise says that these tests will be skipped. It is no error.
set -euo pipefail

root=

there() { command -v postgres >/dev/null || compgen -G "$root/usr/lib/postgresql/*/bin/postgres" >/dev/null; }

# Runs as root, or through sudo if that asks for no password.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

there && exit 0
if command -v apt-get >/dev/null && as_root true 2>/dev/null; then
  echo "Installing a PostgreSQL server with apt-get" >&2
  as_root apt-get update -qq >/dev/null 2>&1 || true
  # Without a cluster of its own: the tests make theirs.
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends postgresql-common >/dev/null 2>&1 || true
  as_root sed -i 's/^#\?create_main_cluster.*/create_main_cluster = false/' \
    "$root/etc/postgresql-common/createcluster.conf" 2>/dev/null || true
  as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends postgresql >/dev/null 2>&1 || true
fi
there || echo "No PostgreSQL server is here: tests that need one are skipped." >&2
exit 0
