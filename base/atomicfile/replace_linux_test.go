package atomicfile

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// content writes a text.
func content(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// wantFile checks the content and the permissions of a file.
func wantFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	got, err := os.ReadFile(name)
	info, err2 := os.Lstat(name)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if string(got) != text || info.Mode() != mode {
		t.Errorf("%s: %q, %v; want %q, %v", name, got, info.Mode(), text, mode)
	}
}

// A replaced file keeps its mode, and links stay links. A failed write leaves the file.
func TestReplaceKeepsModesAndLinks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("secret"), []byte("old"), 0o600), os.Symlink("secret", at("link")),
		os.Symlink("none", at("dangling"))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"link": "new", "dangling": "created", "plain": "first"} {
		if err := Replace(at(name), 0o644, content(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantFile(t, at("secret"), "new", 0o600)
	wantFile(t, at("none"), "created", 0o644)
	wantFile(t, at("plain"), "first", 0o644)
	if to, err := os.Readlink(at("link")); to != "secret" {
		t.Error(to, err)
	}
	// An error of the writer is not one of the file, whatever it says.
	if err := Replace(at("plain"), 0o644, func(io.Writer) error { return syscall.EPERM }); !errors.Is(err, syscall.EPERM) {
		t.Error(err)
	}
	wantFile(t, at("plain"), "first", 0o644)
	if err := Replace(dir, 0o644, content("x")); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("a folder: %v", err)
	}
}

// mountedFile makes the test below replace this file, which is a mount point.
const mountedFile = "BAKEOFF_TEST_MOUNTED_FILE"

// Docker's -v FILE:FILE makes a file a mount point, which rename(2) cannot replace.
func TestReplaceAMountPoint(t *testing.T) {
	if name := os.Getenv(mountedFile); name != "" {
		if err := unix.Mount(name, name, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
		if err := Replace(name, 0o644, content("new")); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Dir(name))
		if len(entries) != 1 {
			t.Error(entries, err)
		}
		return
	}
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, []byte("a longer text"), 0o640); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(os.Args[0], "-test.run=^TestReplaceAMountPoint$")
	c.Env = append(os.Environ(), mountedFile+"="+name)
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}}
	out, err := c.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this machine permits no user namespaces: run the test as root outside of a container")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	wantFile(t, name, "new", 0o640)
}
