package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/nsenter"
	"bakeoff/reach/wire"
)

// enterHere runs argv through the real Enter: this test binary, executed again.
func enterHere(t *testing.T, argv ...string) (conn.Exit, string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out bytes.Buffer
	cmd := conn.Cmd{Argv: append([]string{os.Args[0]}, argv...), Env: []string{"AGENT_TEST_ENTER=1"}, Stdout: &out,
		Stderr: &out}
	exit, err := Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(ctx, cmd) })
	return exit, out.String(), err
}

// As the process that enterHere starts, this test binary is enter and no test.
func init() {
	if os.Getenv("AGENT_TEST_ENTER") != "" {
		os.Unsetenv("AGENT_TEST_ENTER")
		Enter(os.Args[1:])
	}
}

func TestEnterExecutes(t *testing.T) {
	exit, out, err := enterHere(t, "--dir", "/dev", "--cpus", "0", "--clear-env", "--env", "PATH=/bin:/usr/bin",
		"--env", "A=b c",
		"--", "sh", "-c", `pwd; echo "$A|$HOME|$#"; nproc; exit 9`, "sh", "--x", "")
	if err != nil || exit.Code != 9 || out != "/dev\nb c||2\n1\n" {
		t.Errorf("%v, %v, %q", exit, err, out)
	}
}

// With --await it reads that the place exists, and leaves the rest of its input
// to the program.
func TestEnterAwaits(t *testing.T) {
	for in, want := range map[string]string{nsenter.Ready + "rest": "rest", nsenter.Ready: "", "": "begins with",
		"not so": "begins with"} {
		var out bytes.Buffer
		cmd := conn.Cmd{Argv: []string{os.Args[0], "--await", "--", "cat"}, Env: []string{"AGENT_TEST_ENTER=1"},
			Stdin: strings.NewReader(in), Stdout: &out}
		exit, err := Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(t.Context(), cmd) })
		if ready := strings.HasPrefix(in, nsenter.Ready); ready != (err == nil && exit.OK()) ||
			ready && out.String() != want || !ready && (!fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, %v, %q", in, exit, err, out.String())
		}
	}
}

func TestEnterReports(t *testing.T) {
	exit, _, err := enterHere(t, "--report", "--", "sh", "-c", "printf 'a line\nand half a line' >&2; kill -9 $$")
	if err != nil || exit.Code != 137 || exit.Signal != "killed" {
		t.Errorf("by a signal: %+v, %v", exit, err)
	}
	if exit, out, err := enterHere(t, "--report", "--", "sh", "-c", "exit 137"); err != nil || exit.Code != 137 ||
		exit.Signal != "" || out != "" {
		t.Errorf("by itself: %+v, %v, %q", exit, err, out)
	}
}

func TestEnterFailures(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		argv []string
		kind fault.Kind
		says string
	}{
		{[]string{"--", "no-such-program"}, fault.NotFound, "no-such-program"},
		{[]string{"--", "/no/such/program"}, fault.NotFound, "/no/such/program"},
		{[]string{"--cgroup", "/no/such/group", "--", "true"}, fault.NotFound, "join cgroup"},
		{[]string{"--cpus", "5-1", "--", "true"}, fault.Lab, "list of CPUs"},
		{[]string{"--cpus", "900", "--", "true"}, fault.Lab, "CPUs 900"},
		{[]string{"--dir", "/no/such/dir", "--", "true"}, fault.Lab, "/no/such/dir"},
		{[]string{"--pid", "1", "--ns", "moon", "--", "true"}, fault.Lab, "moon"},
		{[]string{"--pid", "1", "--", "true"}, fault.Lab, "can be used only together"},
		{[]string{"--umount", "/x", "--", "true"}, fault.Lab, "--private-mounts"},
		{[]string{"--cpus", "0"}, fault.Lab, "no program"},
	} {
		_, out, err := enterHere(t, test.argv...)
		if test.argv[0] == "--cgroup" {
			test.kind = fault.Lab // what is missing is not the program
		}
		if err == nil || fault.Of(err) != test.kind || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v of kind %q, want %q and %q", test.argv, err, fault.Of(err), test.kind, test.says)
		}
		if out != "" {
			t.Errorf("%q: the error is also printed: %q", test.argv, out)
		}
	}
	if exit, out, err := enterHere(t, "--", text); err != nil || exit.Code != 126 || !strings.Contains(out, text) {
		t.Errorf("a file without execute permission: %v, %v, %q", exit, err, out)
	}
	// A program that prints the mark itself has not failed to start.
	for _, say := range []string{nsenter.Mark[:4], nsenter.Mark + "x\n", nsenter.Mark + strings.Repeat("x", headBytes)} {
		exit, out, err := enterHere(t, "--", "sh", "-c", `printf %s "$1" >&2; printf end >&2; exit 9`, "sh", say)
		if err != nil || exit.Code != 9 || out != say+"end" {
			t.Errorf("%q: %v, %v, %q", say, exit, err, out)
		}
	}
	// The program's own 127 is not a failure of the agent.
	if exit, _, err := enterHere(t, "--", "sh", "-c", "echo nothing here >&2; exit 127"); err != nil || exit.Code != 127 {
		t.Errorf("%v, %v", exit, err)
	}
}

func needNamespaces(t *testing.T) {
	if out, err := exec.Command("unshare", "-m", "-p", "-f", "true").CombinedOutput(); err != nil {
		t.Skipf("needs root and namespaces: unshare: %v %s", err, out)
	}
}

func TestEnterPrivateMounts(t *testing.T) {
	needNamespaces(t)
	before, _ := os.ReadFile("/proc/self/mounts")
	exit, out, err := enterHere(t, "--private-mounts", "--umount", "/dev/shm", "--", "sh", "-c",
		"grep -c ' /dev/shm ' /proc/self/mounts")
	if err != nil || exit.Code > 1 {
		t.Fatalf("%v, %v, %s", exit, err, out)
	}
	inside, outside := 0, strings.Count(string(before), " /dev/shm ")
	fmt.Sscan(out, &inside)
	// Others mount what they like at the same time.
	after, _ := os.ReadFile("/proc/self/mounts")
	if still := strings.Count(string(after), " /dev/shm "); inside >= outside || still != outside {
		t.Errorf("%d mounts there inside, %d outside, %d before", inside, still, outside)
	}
}

// Into the namespaces of a process; the way the program ends comes back
// through the parent that has to stay.
func TestEnterNamespaces(t *testing.T) {
	needNamespaces(t)
	sandbox := exec.Command("unshare", "-m", "-u", "-p", "-f", "--mount-proc", "sh", "-c",
		"hostname inside; echo ready; exec sleep 100")
	ready, err := sandbox.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sandbox.Process.Kill(); sandbox.Wait() }()
	if _, err := fmt.Fscanln(ready, new(string)); err != nil {
		t.Fatal(err)
	}
	child, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", sandbox.Process.Pid))
	if err != nil {
		t.Skipf("needs a kernel with CONFIG_PROC_CHILDREN: %v", err)
	}
	defer exec.Command("kill", "-9", strings.TrimSpace(string(child))).Run()
	comm := fmt.Sprintf("/proc/%s/comm", strings.TrimSpace(string(child)))
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until it has become sleep
		if name, err := os.ReadFile(comm); err != nil || time.Now().After(end) {
			t.Fatalf("the process there is %q, %v", name, err)
		} else if string(name) == "sleep\n" {
			break
		}
	}
	in := []string{"--pid", strings.TrimSpace(string(child)), "--ns", "mnt,uts,pid", "--"}
	exit, out, err := enterHere(t, append(in, "sh", "-c", "hostname; cat /proc/1/comm; exit 4")...)
	if err != nil || exit.Code != 4 || out != "inside\nsleep\n" {
		t.Errorf("%v, %v, %q", exit, err, out)
	}
	for signal, code := range map[string]int{"KILL": 137, "TERM": 143, "SEGV": 139, "ABRT": 134, "QUIT": 131} {
		exit, out, err := enterHere(t, append(in, "sh", "-c", "kill -"+signal+" $$")...)
		if err != nil || exit.Code != code || exit.Signal == "" || out != "" {
			t.Errorf("SIG%s came back as %+v, %v, %q", signal, exit, err, out)
		}
	}
	if _, _, err := enterHere(t, append(in, "no-such-program")...); !fault.Is(err, fault.NotFound) {
		t.Errorf("missing program: %v", err)
	}
}

// Whichever thread asks for it, the process ends by the signal.
func TestDieOf(t *testing.T) {
	for range 20 {
		cmd := conn.Cmd{Argv: []string{os.Args[0]}, Env: []string{"AGENT_TEST_INIT=die"}}
		exit, err := local.Conn{}.Exec(t.Context(), cmd)
		if err != nil || exit.Code != 139 || exit.Signal == "" {
			t.Fatalf("%+v, %v", exit, err)
		}
	}
}

func TestPause(t *testing.T) {
	if os.Getenv("AGENT_TEST_PAUSE") != "" {
		os.Exit(Pause([]string{"--ready"}, os.Stderr))
	}
	needNamespaces(t)
	p := exec.Command("unshare", "-p", "-f", "--kill-child", os.Args[0], "-test.run=^TestPause$")
	p.Env = append(os.Environ(), "AGENT_TEST_PAUSE=1")
	said, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make([]byte, len(wire.PauseReady))
	if _, err := io.ReadFull(said, ready); err != nil || string(ready) != wire.PauseReady {
		t.Fatalf("it says %q, %v", ready, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Wait() }()
	select {
	case err := <-ended:
		t.Fatalf("pause ended by itself: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Process.Pid))
	exec.Command("kill", "-TERM", strings.TrimSpace(string(children))).Run()
	select {
	case err := <-ended:
		var ee *exec.ExitError
		if errors.As(err, &ee) {
			t.Errorf("pause ended with %v", err)
		}
	case <-time.After(time.Minute):
		p.Process.Kill()
		t.Fatal("pause did not end within a minute of SIGTERM")
	}
}

// Files are shown at paths that the host does not have. What is beside them stays as
// it is, and the host sees nothing of them.
func TestEnterPlacesFiles(t *testing.T) {
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("needs root, and mounts: not with -short")
	}
	dir, from := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"kept/file": "kept", "single": "single", "deep/er/file": "deep"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("kept", filepath.Join(dir, "link")),
		os.WriteFile(filepath.Join(from, "a"), []byte("A"), 0o755),
		os.MkdirAll(filepath.Join(from, "d", "e"), 0o755)); err != nil {
		t.Fatal(err)
	}
	args := []string{"--private-mounts", "--place", from + "/a:" + dir + "/new/x", "--place",
		from + "/a:" + dir + "/new/y",
		"--place", from + "/d:" + dir + "/tree", "--place", from + "/a:" + dir + "/single", "--place", from + "/a:" + dir +
			"/link/b",
		"--place", from + "/a:" + dir + "/deep/er/file2", "--", "sh", "-c", `cd ` + dir + ` || exit
cat new/x new/y single link/b kept/file deep/er/file deep/er/file2; ls -d tree/e
for f in new/x x tree/x kept/x; do (: > $f) 2>/dev/null && echo wrote $f; done; : > deep/made && echo made`}
	exit, out, err := enterHere(t, args...)
	if err != nil || !exit.OK() || out != "AAAAkeptdeepAtree/e\nmade\n" {
		t.Errorf("%v, %v, %q", exit, err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "single"))
	left, _ := os.ReadDir(dir)
	if err != nil || string(text) != "single" || len(left) != 4 {
		t.Errorf("the host: %q, %v, %v", text, left, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "deep", "made")); err != nil {
		t.Errorf("a folder beside the files is not the host's any more: %v", err)
	}
	for _, wrong := range [][2]string{{from + "/d", dir + "/single"}, {from + "/a", dir + "/kept"},
		{from + "/none", dir + "/x"},
		{from + "/a", "/no-such-folder/x"}, {from + "/a", dir + "/single/x"}} {
		_, out, err := enterHere(t, "--private-mounts", "--place", wrong[0]+":"+wrong[1], "--", "true")
		if err == nil || !strings.Contains(err.Error(), "place "+wrong[1]) {
			t.Errorf("%v: %v, %q", wrong, err, out)
		}
	}
}
