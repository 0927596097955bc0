package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

func TestCPUs(t *testing.T) {
	out, err := conn.Output(t.Context(), Conn{CPUs: []int{0}}, "nproc")
	if err != nil || string(out) != "1\n" {
		t.Errorf("nproc on CPU 0 says %q, %v", out, err)
	}
	all, err := conn.Output(t.Context(), Conn{}, "nproc")
	if want, _ := exec.Command("nproc").Output(); err != nil || !bytes.Equal(all, want) {
		t.Errorf("afterwards nproc says %q, want %q: the starting thread did not go back", all, want)
	}
	if _, err := (Conn{CPUs: []int{1000}}).Exec(t.Context(), conn.Command("true")); err == nil {
		t.Error("a program ran on CPU 1000")
	}
}

// group makes a control group of version 2, and skips where there are none.
func group(t *testing.T) string {
	t.Helper()
	if !startsInGroups() {
		t.Skip("needs Linux 5.7: clone3 with CLONE_INTO_CGROUP")
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(root + "/cgroup.procs"); err != nil {
			continue
		}
		dir := fmt.Sprintf("%s/bo-local-%d", root, os.Getpid())
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skip("needs writable control groups:", err)
		}
		t.Cleanup(func() { os.Remove(dir) })
		return dir
	}
	t.Skip("needs control groups of version 2")
	return ""
}

func TestStartsInGroup(t *testing.T) {
	dir := group(t)
	out, err := conn.OutputOf(t.Context(), Conn{CPUs: []int{0}}, conn.Cmd{Argv: []string{"cat", "/proc/self/cgroup"},
		Group: dir})
	if want := "0::/" + filepath.Base(dir) + "\n"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
	out, err = conn.Output(t.Context(), Conn{}, "cat", "/proc/self/cgroup")
	if err != nil || strings.Contains(string(out), filepath.Base(dir)) {
		t.Errorf("afterwards programs start in %q, %v", out, err)
	}
}

func TestNetns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ns := fmt.Sprintf("bo-local-%d", os.Getpid())
	if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
		t.Skipf("needs ip netns: %v: %s", err, out)
	}
	defer exec.Command("ip", "netns", "del", ns).Run()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := Conn{Netns: ns, CPUs: []int{0}}
	// The kernel may give a namespace more links than the loopback interface.
	want, err := exec.Command("stat", "-L", "-c", "net:[%i]", "/run/netns/"+ns).Output()
	if err != nil {
		t.Fatal(err)
	}
	out, err := conn.Output(ctx, c, "sh", "-c", "ip link set lo up; readlink /proc/self/ns/net; nproc")
	if err != nil || string(out) != string(want)+"1\n" {
		t.Errorf("namespace and CPUs inside: %q, %v; want %q and 1", out, err, want)
	}
	here, _ := os.Readlink("/proc/self/ns/net")
	if out, err := conn.Output(ctx, Conn{}, "readlink", "/proc/self/ns/net"); err != nil ||
		strings.TrimSpace(string(out)) != here {
		t.Errorf("afterwards programs start in %s, want %s (%v)", out, here, err)
	}
	dialInside(ctx, t, c)
	if _, err := (Conn{Netns: "no-such-ns"}).Exec(ctx, conn.Command("true")); !fault.Is(err, fault.NotFound) {
		t.Errorf("a namespace that does not exist: %v", err)
	}
	if _, err := (Conn{Netns: "../netns"}).Exec(ctx, conn.Command("true")); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name with a slash: %v", err)
	}
}

// Dial finds a server of the namespace, which has the same address outside.
func dialInside(ctx context.Context, t *testing.T, c Conn) {
	outside, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	addr := outside.Addr().String()
	if nc, err := c.Dial(ctx, "tcp", addr); err == nil {
		nc.Close()
		t.Error("Dial from the namespace reached a server outside")
	}
	if _, err := c.Dial(ctx, "tcp", "localhost:1"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a name instead of an address: %v", err)
	}
}

// The program dies with us, although no process waits for it any more.
func TestDiesWithParent(t *testing.T) {
	if os.Getenv("LOCAL_TEST_CHILD") != "" {
		Conn{}.Exec(context.Background(), conn.Cmd{Argv: []string{"sh", "-c", "echo $$; exec sleep 100"}, Stdout: os.Stdout})
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestDiesWithParent$")
	parent.Env = append(os.Environ(), "LOCAL_TEST_CHILD=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	parent.Process.Kill()
	parent.Wait()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d survives: %s", pid, stat)
		}
	}
}

// BenchmarkExec is what starting a program costs.
func BenchmarkExec(b *testing.B) {
	for _, c := range []Conn{{}, {CPUs: []int{0}}} {
		b.Run(fmt.Sprint(c.CPUs), func(b *testing.B) {
			for b.Loop() {
				if exit, err := c.Exec(b.Context(), conn.Command("true")); err != nil || !exit.OK() {
					b.Fatal(exit, err)
				}
			}
		})
	}
}

// A program that is still open for writing starts when it is closed; one that
// stays open is refused with the kernel's word.
func TestProgramThatIsBeingWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	w, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteString("#!/bin/sh\necho ran\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := (Conn{}).Exec(t.Context(), conn.Command(file)); !errors.Is(err, syscall.ETXTBSY) {
		t.Fatalf("error %v while the program is written, want ETXTBSY", err)
	}
	tried := 0
	err = Unbusy(func() error {
		if tried++; tried == 3 {
			w.Close()
		}
		return exec.Command(file).Run()
	})
	if err != nil || tried < 3 {
		t.Errorf("error %v after %d tries, want none after it was closed", err, tried)
	}
	var out bytes.Buffer
	if exit, err := (Conn{}).Exec(t.Context(), conn.Cmd{Argv: []string{file}, Stdout: &out}); err != nil ||
		!exit.OK() || out.String() != "ran\n" {
		t.Errorf("%v %v %q after it was closed", exit, err, out.String())
	}
}

// Programs that one goroutine writes and starts while others start programs
// are never busy: each child of the others has the written file open until it
// executes.
func TestWrittenBesideOthers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	defer others.Wait()
	defer cancel()
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				Conn{}.Exec(ctx, conn.Command("true"))
			}
		})
	}
	dir := t.TempDir()
	for i := range 200 {
		file := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if exit, err := (Conn{}).Exec(t.Context(), conn.Command(file)); err != nil || !exit.OK() {
			t.Fatalf("program %d: %v %v", i, exit, err)
		}
	}
}
