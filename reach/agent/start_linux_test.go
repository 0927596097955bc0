package agent

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bakeoff/reach/wire"
)

// TestMain makes the test binary the agent for TestStart: start executes its own program again.
func TestMain(m *testing.M) {
	if os.Getenv("AGENT_TEST_START") != "" {
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, nil))
	}
	os.Exit(m.Run())
}

// agentOf is this test binary, which is the agent from now on.
func agentOf(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AGENT_TEST_START", "1")
	return self
}

// runStarted runs start and returns its output and exit code.
func runStarted(t *testing.T, self string, args ...string) (string, int) {
	t.Helper()
	cmd := exec.Command(self, append([]string{"start"}, args...)...)
	out, _ := cmd.CombinedOutput() // the code tells
	return string(out), cmd.ProcessState.ExitCode()
}

// until waits until the file has text, and returns it.
func until(t *testing.T, file string) string {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			return string(b)
		}
	}
	t.Fatalf("%s stays empty", file)
	return ""
}

// start returns while the program runs, and the end of the program is in a file.
func TestStart(t *testing.T) {
	self, dir := agentOf(t), t.TempDir()
	log, status := filepath.Join(dir, "new", "log"), filepath.Join(dir, "new", "status")
	flags := []string{"--log", log, "--status", status, "--dir", filepath.Join(dir, "made"), "--"}
	const script = "pwd; echo $$; while ! test -e end; do sleep 0.01; done; echo over >&2; exit 7"
	if out, code := runStarted(t, self, append(flags, "sh", "-c", script)...); code != 0 || out != "" {
		t.Fatalf("%d: %s", code, out)
	}
	if _, err := os.Stat(status); err == nil {
		t.Error("it has ended before its time")
	}
	until(t, log)
	if err := os.WriteFile(filepath.Join(dir, "made", "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	end, err := wire.ParseStarted([]byte(until(t, status)))
	if err != nil || end.Code != 7 || end.Signal != "" || end.Argv[0] != "sh" {
		t.Errorf("%+v, %v", end, err)
	}
	lines := strings.Split(until(t, log), "\n")
	if lines[0] != filepath.Join(dir, "made") || lines[2] != "over" {
		t.Errorf("the log is %q", lines)
	}
}

// A program that is killed has its signal, and it is killed with the agent that waits for it.
func TestStartKilled(t *testing.T) {
	self, dir := agentOf(t), t.TempDir()
	log, status := filepath.Join(dir, "log"), filepath.Join(dir, "status")
	if out, code := runStarted(t, self, "--log", log, "--status", status, "--", "sh", "-c",
		"echo $$; exec sleep 600"); code != 0 {
		t.Fatalf("%d: %s", code, out)
	}
	pid := strings.TrimSpace(until(t, log))
	if _, err := strconv.Atoi(pid); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("kill", "-KILL", pid).Run(); err != nil {
		t.Fatal(err)
	}
	end, err := wire.ParseStarted([]byte(until(t, status)))
	if err != nil || end.Code != 137 || end.Signal != "killed" {
		t.Errorf("%+v, %v", end, err)
	}
}

// What cannot start says so at once.
func TestStartFails(t *testing.T) {
	self, dir := agentOf(t), t.TempDir()
	log, status := filepath.Join(dir, "log"), filepath.Join(dir, "status")
	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no program": {[]string{"--log", log, "--status", status, "--", "no-such-program"}, wire.ExitNotFound,
			"no-such-program"},
		"no log":   {[]string{"--log", self + "/x/log", "--status", status, "--", "true"}, wire.ExitLab, "not a directory"},
		"a folder": {[]string{"--log", log, "--status", status, "--", dir}, wire.ExitSubject, "permission denied"},
		"a user": {[]string{"--log", log, "--status", status, "--user", "nobody-of-that-name", "--", "true"},
			wire.ExitSubject, "nobody-of-that-name"},
		"no words": {[]string{"--log", log, "--status", status}, wire.ExitInvalid, "usage"},
	} {
		if out, code := runStarted(t, self, tt.args...); code != tt.code || !strings.Contains(out, tt.says) {
			t.Errorf("%s: %d: %s", name, code, out)
		}
	}
}
