package local_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/conntest"
	"bakeoff/reach/conn/local"
)

func TestContract(t *testing.T) {
	conntest.Run(t, local.Conn{}, conntest.Options{Dir: t.TempDir()})
}

// programsOnly hides the fast path, as a Conn over a network has none.
type programsOnly struct{ conn.Conn }

// Both ways to touch small files behave alike.
func TestFiles(t *testing.T) {
	for name, files := range map[string]conn.Files{
		"local": local.Conn{}, "programs": conn.FilesOf(programsOnly{local.Conn{}}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := t.Context(), t.TempDir()
			if err := files.Mkdir(ctx, dir+"/a"); err != nil {
				t.Error(err)
			}
			if err := files.Mkdir(ctx, dir+"/a"); err != nil {
				t.Errorf("a directory that exists: %v", err)
			}
			if err := os.WriteFile(dir+"/f", []byte("12345"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := files.WriteFile(ctx, dir+"/f", []byte("abc")); err != nil {
				t.Error(err)
			}
			if b, err := files.ReadFile(ctx, dir+"/f"); err != nil || string(b) != "abc45" {
				t.Errorf("read %q, %v", b, err)
			}
			if names, err := files.ReadDir(ctx, dir); err != nil || strings.Join(names, " ") != "a f" {
				t.Errorf("names %q, %v", names, err)
			}
			for _, err := range []error{files.Rmdir(ctx, dir+"/a"), files.Rmdir(ctx, dir+"/a")} {
				if err != nil {
					t.Error(err)
				}
			}
			if _, err := files.ReadFile(ctx, dir+"/gone"); !fault.Is(err, fault.NotFound) {
				t.Errorf("reading what is not there: %v", err)
			}
			if _, err := files.ReadDir(ctx, dir+"/gone"); !fault.Is(err, fault.NotFound) {
				t.Errorf("listing what is not there: %v", err)
			}
			if err := files.WriteFile(ctx, "/proc/self/no-such-file", nil); err == nil {
				t.Error("wrote to what is not there")
			}
			if _, err := files.ReadFile(ctx, "/dev/zero"); err == nil {
				t.Error("a read without end was not refused")
			}
		})
	}
}

func TestOutput(t *testing.T) {
	ctx := t.Context()
	if out, err := conn.Output(ctx, local.Conn{}, "printf", "%s", "x"); string(out) != "x" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	_, err := conn.Output(ctx, local.Conn{}, "sh", "-c", "echo it broke >&2; exit 4")
	if err == nil || !strings.Contains(err.Error(), "exit code 4: it broke") {
		t.Errorf("the error does not say what happened: %v", err)
	}
	if _, err := conn.Output(ctx, local.Conn{}, "head", "-c", "5000000", "/dev/zero"); err == nil {
		t.Error("an output over the limit was not refused")
	}
}

func TestTail(t *testing.T) {
	tail := conn.Tail{Limit: 4}
	for _, s := range []string{"ab", "cdefg", "h", "", "ijklmnopqrstuvw"} {
		tail.Write([]byte(s))
	}
	if got := string(tail.Bytes()); got != "tuvw" || tail.Lost != 19 {
		t.Errorf("kept %q, lost %d; want tuvw, 19", got, tail.Lost)
	}
}

func TestPrefix(t *testing.T) {
	c := conn.Prefix(local.Conn{}, "env", "-u", "HOME", "X=1")
	cmd := conn.Command("sh", "-c", `printf %s "$X${HOME-none}"; exit 5`)
	var out bytes.Buffer
	cmd.Stdout = &out
	if exit, err := c.Exec(t.Context(), cmd); exit.Code != 5 || err != nil || out.String() != "1none" {
		t.Errorf("%v, %v, %q", exit, err, out.String())
	}
	if _, err := c.Exec(t.Context(), conn.Cmd{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("no program: %v", err)
	}
}

// A process that stays behind with our streams in its hands does not hold
// Exec up.
func TestBackgroundHoldsStreams(t *testing.T) {
	start := time.Now()
	out, err := conn.Output(t.Context(), local.Conn{}, "sh", "-c", "sleep 100 & echo $!")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Output(context.Background(), local.Conn{}, "kill", strings.TrimSpace(string(out)))
	if d := time.Since(start); d > 50*time.Second {
		t.Errorf("Exec took %v", d)
	}
}

// Output that was still in the pipe when the program ended arrives whole,
// also through a slow writer.
func TestSlowWriter(t *testing.T) {
	var got slow
	exit, err := local.Conn{}.Exec(t.Context(), conn.Cmd{Argv: []string{"head", "-c", "300000", "/dev/zero"},
		Stdout: &got})
	if err != nil || !exit.OK() || got != 300000 {
		t.Errorf("%d bytes, %v, %v", got, exit, err)
	}
}

type slow int

func (s *slow) Write(p []byte) (int, error) {
	time.Sleep(20 * time.Millisecond)
	*s += slow(len(p))
	return len(p), nil
}

func TestFailingWriter(t *testing.T) {
	full := errors.New("full")
	_, err := local.Conn{}.Exec(t.Context(), conn.Cmd{Argv: []string{"head", "-c", "300000", "/dev/zero"},
		Stdout: refuse{full}})
	if !errors.Is(err, full) {
		t.Errorf("error %v, want the writer's", err)
	}
}

type refuse struct{ err error }

func (r refuse) Write([]byte) (int, error) { return 0, r.err }

func TestNotExecutable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(file, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	exit, err := local.Conn{}.Exec(t.Context(), conn.Command(file))
	if err != nil || exit.Code != 126 {
		t.Errorf("%v, %v; want exit code 126, as a shell says", exit, err)
	}
}

// A child that has left for a session of its own is killed as well.
func TestKillsSessions(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("needs Linux's /proc")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		local.Conn{}.Exec(ctx, conn.Command("sh", "-c",
			`setsid sh -c 'echo $$ >"$1/new"; mv "$1/new" "$1/pid"; exec sleep 100' sh "$1"; wait`, "sh", dir))
		close(ended)
	}()
	var pid []byte
	for end := time.Now().Add(time.Minute); len(pid) == 0; time.Sleep(5 * time.Millisecond) {
		if pid, _ = os.ReadFile(dir + "/pid"); time.Now().After(end) {
			t.Fatal("the program did not start within a minute")
		}
	}
	cancel()
	<-ended
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %s survives: %s", pid, stat)
		}
	}
}

func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := local.Conn{}.Dial(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	l.Close()
	if _, err := (local.Conn{}).Dial(t.Context(), "tcp", l.Addr().String()); err == nil {
		t.Error("connected without a listener")
	}
}
