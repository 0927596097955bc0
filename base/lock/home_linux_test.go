package lock

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The home of another user, or a lock file in it, may not be writable.
func TestUnwritableHome(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: it becomes another user")
	}
	home := t.TempDir()
	if err := os.Chmod(filepath.Dir(home), 0o755); err != nil { // only its owner may enter
		t.Fatal(err)
	}
	for dir := home; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&1 == 0 {
			t.Skipf("needs %s to be open to other users", dir)
		}
	}
	const nobody = 65534
	path := filepath.Join(home, ".local/state/bakeoff/machine.lock")
	asNobody := func() string {
		answer := make(chan string)
		go func() {
			runtime.LockOSThread() // and the thread ends with this function
			if _, _, no := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); no != 0 {
				answer <- no.Error()
				return
			}
			answer <- OfMachine(func(name string) string { return map[string]string{"HOME": home}[name] }, nobody)
		}()
		return <-answer
	}
	if got := asNobody(); got != "" {
		t.Errorf("in a home of root, the lock is %q", got)
	}
	if err := os.Chown(home, nobody, -1); err != nil {
		t.Fatal(err)
	}
	if got := asNobody(); got != path {
		t.Errorf("in a home of this user, the lock is %q", got)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := asNobody(); got != "" {
		t.Errorf("with a file of root, the lock is %q", got)
	}
}
