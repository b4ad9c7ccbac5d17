#!/usr/bin/env bash
# Makes the Docker image that test servers run in, hare/postgres:15, unless it is there: from the public image if the
# registry can be reached, else from Debian packages (as root; the package mirror of the machine is used).
set -euo pipefail

image=hare/postgres:15
have() { docker image inspect "$image" >/dev/null 2>&1; }

have && exit 0

# Several test binaries may come here at once; one of them makes the image.
if command -v flock >/dev/null; then
	exec 9>"${TMPDIR:-/tmp}/hare-image.lock"
	flock 9
	have && exit 0
fi

if timeout 300 docker pull --quiet postgres:15 >&2; then
	docker tag postgres:15 "$image"
	exit 0
fi

echo "postgres:15 cannot be pulled; making $image from Debian packages" >&2
if [ "$(id -u)" != 0 ]; then
	echo "that needs root" >&2
	exit 1
fi
if ! command -v debootstrap >/dev/null; then
	apt-get update -qq >&2
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends debootstrap >&2
fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
debootstrap --variant=minbase --include=postgresql-15 bookworm "$root" >&2
# The package has made a cluster, which nothing uses, and apt has kept what it fetched.
rm -rf "$root"/var/lib/postgresql/15 "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
tar -C "$root" -c . | docker import - "$image" >&2
