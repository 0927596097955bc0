package archive

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// MakeKey makes an SSH key and a file that trusts it.
func MakeKey(t testing.TB, name string) (private, signers string) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("needs ssh-keygen: apt-get install openssh-client")
	}
	dir := t.TempDir()
	private, signers = filepath.Join(dir, "key"), filepath.Join(dir, "signers")
	generate := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", private)
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	public, err := os.ReadFile(private + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(signers, []byte(name+" "+string(public)), 0o600); err != nil {
		t.Fatal(err)
	}
	return private, signers
}
