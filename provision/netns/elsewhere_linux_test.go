package netns

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// view starts a process in a mount namespace with another /run, where it executes a script
// first. The process ends with the test.
func view(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	c := exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs none /run && "+script+" && echo ready && read end")
	stop, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var wrong strings.Builder
	c.Stderr = &wrong
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop.Close()
		_ = c.Wait()
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); line != "ready\n" {
		t.Skipf("needs mount namespaces: %v: %s", err, wrong.String())
	}
	return c
}

// A process in a mount namespace with another /run leaves a network namespace there, which
// a process outside finds and removes.
func TestNamesInAnotherMountNamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces; run without -short")
	}
	if err := Check(t.Context(), host); err != nil {
		t.Skip("needs ", err)
	}
	name := fmt.Sprintf("bo-e%d", os.Getpid())
	c := view(t, "ip netns add "+name)
	if have, err := Exists(t.Context(), host, name); have || err != nil {
		t.Fatalf("the name is seen at the path of this process (%v)", err)
	}
	there := fmt.Sprintf("/proc/%d/root%s", c.Process.Pid, Path(name))
	found := Namesakes(name)
	if len(found) != 1 || found[0].Name != name {
		t.Fatalf("found %+v, want the one of process %d", found, c.Process.Pid)
	}
	if _, err := os.Lstat(there); err != nil {
		t.Fatal("the search removed it: ", err)
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		t.Fatal(err)
	}
	if err := found[0].Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(there); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if err := found[0].Remove(); err != nil {
		t.Errorf("removed twice: %v", err)
	}
	if now, err := os.Readlink("/proc/self/ns/mnt"); now != own {
		t.Errorf("this process is in another mount namespace: %v", err)
	}
	if found := Namesakes(name); len(found) > 0 {
		t.Errorf("found %+v after it was removed", found)
	}
}

// A process that was found may end before the name is removed, while others are in its mount namespace.
func TestNamesOfAProcessThatEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces; run without -short")
	}
	if err := Check(t.Context(), host); err != nil {
		t.Skip("needs ", err)
	}
	name := fmt.Sprintf("bo-d%d", os.Getpid())
	c := view(t, "ip netns add "+name)
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := (Elsewhere{Name: name, PID: ended.Process.Pid}).Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(fmt.Sprintf("/proc/%d/root%s", c.Process.Pid, Path(name))); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// A file of that name is not a network namespace.
func TestOnlyNamespacesAreNamesakes(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces; run without -short")
	}
	network(t) // skips without the privilege
	name := fmt.Sprintf("bo-f%d", os.Getpid())
	c := view(t, "mkdir /run/netns && : > /run/netns/"+name)
	var s unix.Stat_t
	if err := unix.Lstat(fmt.Sprintf("/proc/%d/root%s", c.Process.Pid, Path(name)), &s); err != nil {
		t.Fatal(err)
	}
	if found := Namesakes(name); len(found) > 0 {
		t.Errorf("a file is taken for a namespace: %+v", found)
	}
}
