#!/bin/sh
# Usage: unshare -m -p -f -u -i --kill-child boot_unit.sh BUILD CONFIG MODELS
#
# Becomes systemd with nexus.service as all that it starts, in namespaces of its own
# and on a root whose changes are lost: this machine's with the build installed under
# /usr, CONFIG as /etc/nexus/config.toml, and the weights of MODELS. For
# systemd_unit_test.py; needs root.
set -e
BUILD=$1 CONFIG=$2 MODELS=$3

mount -t tmpfs tmpfs /mnt
mkdir /mnt/up /mnt/work /mnt/root
ROOT=/mnt/root
mount -t overlay overlay -o lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work $ROOT
mount --bind /dev $ROOT/dev
mount -t proc proc $ROOT/proc
mount -t sysfs sysfs $ROOT/sys
mount -t tmpfs tmpfs $ROOT/run
mount -t tmpfs tmpfs $ROOT/tmp
mount -t cgroup2 none $ROOT/sys/fs/cgroup
echo mounted

DESTDIR=$ROOT cmake --install "$BUILD" --prefix /usr >/dev/null
mkdir -p $ROOT/etc/nexus $ROOT/srv/models $ROOT/etc/systemd/system/nexus.service.d
cp "$CONFIG" $ROOT/etc/nexus/config.toml
chmod 644 $ROOT/etc/nexus/config.toml
cp "$MODELS"/SmolLM2-135M-Instruct-Q4_1.gguf* $ROOT/srv/models/
chmod -R a+rX $ROOT/srv/models
# The unit as it is, but for where the weights are: a test downloads nothing.
printf '[Service]\nEnvironment=NEXUS_MODELS_DIR=/srv/models\n' \
  >$ROOT/etc/systemd/system/nexus.service.d/models.conf
printf '[Unit]\nRequires=nexus.service\n' >$ROOT/etc/systemd/system/only-nexus.target
: >$ROOT/etc/fstab
exec chroot $ROOT env -i container=nexus-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --system --unit=only-nexus.target --log-target=null
