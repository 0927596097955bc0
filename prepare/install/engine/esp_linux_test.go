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
mkdir a b
sync2() { sh ./esp-sync.sh "$PWD/a" "$PWD/b"; }
sync2 2>&1 | grep -q 'a is not mounted'
mount -t tmpfs a a
mount -t tmpfs b b
if sync2; then echo "copied from an empty ESP"; exit 1; fi
mkdir -p a/EFI/Linux a/EFI/BOOT b/EFI/Linux
echo new > a/EFI/Linux/6.2.efi; echo boot > a/EFI/BOOT/BOOTX64.EFI; echo 'a b' > 'a/EFI/with space'
echo old > b/EFI/Linux/6.1.efi; echo 'boot 1' > b/EFI/Linux/6.2.efi; echo half > b/EFI/Linux/6.2.efi.new
sync2
diff -r a b
rm a/EFI/Linux/6.2.efi
sync2
diff -r a b
umount b
sync2 2>&1 | grep -q 'b is not mounted'
test -z "$(ls b)"
mount -t tmpfs -o size=4k b b
if sync2; then echo "a full ESP was not noticed"; exit 1; fi
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
