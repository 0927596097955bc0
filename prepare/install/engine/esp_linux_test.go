package engine

import (
	"os"
	"os/exec"
	"testing"
)

// TestESPSync runs the script that keeps two ESPs in step, on file systems of its own.
func TestESPSync(t *testing.T) {
	m := newMachine(t, 2)
	const body = `set -eu
mount --make-rprivate /
mkdir a b c
export ESP_FIRST="$PWD/a" ESP_SECOND="$PWD/b" ESP_STATE="$PWD/state"
sync2() { sh ./esp-sync.sh "$@"; }
fails() { if sync2 2>said; then echo "no error: $*"; exit 1; fi; grep -q "$1" said; }
sync2 2>&1 | grep -q 'neither .* is mounted'
mount -t tmpfs a a
mount -t tmpfs b b
sync2 # both are empty during the installation
mkdir b/EFI
fails 'a has no folder EFI'
mkdir -p a/EFI/Linux a/EFI/BOOT b/EFI/Linux
echo new > a/EFI/Linux/6.2.efi; echo boot > a/EFI/BOOT/BOOTX64.EFI; echo 'a b' > 'a/EFI/with space'
echo old > b/EFI/Linux/6.1.efi; echo 'boot 1' > b/EFI/Linux/6.2.efi; echo half > b/EFI/Linux/6.2.efi.new
sync2
diff -r a b
rm a/EFI/Linux/6.2.efi
sync2 linux6.2 6.2.1_1 # the hooks of Void's kernels give package and version
diff -r a b

# The first disk is missing: an update writes to the second, which wins when both are back.
mount --move a c
sync2 --mount
echo new > a/EFI/Linux/6.3.efi
grep -q new b/EFI/Linux/6.3.efi
sync2 2>&1 | grep -q 'only the ESP of .*/b is there'
umount a
mount --move c a
test ! -e a/EFI/Linux/6.3.efi
sync2 --start
grep -q new a/EFI/Linux/6.3.efi
diff -r a b

# A start without it, and without an update, leaves the first in charge.
mount --move a c
sync2 --start 2>&1 | grep -q 'only the ESP of .*/b is there'
umount a
mount --move c a
rm a/EFI/Linux/6.3.efi
sync2
test ! -e b/EFI/Linux/6.3.efi
diff -r a b

umount b
sync2 2>&1 | grep -q 'only the ESP of .*/a is there'
test -z "$(ls b)"
mount -t tmpfs -o size=4k b b
fails 'No space left'
`
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/esp-sync.sh", []byte(m.plan(mirrorSpec).Step("esp-sync").Stdin.Text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-c", body)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
