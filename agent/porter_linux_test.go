package agent

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/local"
	"bakeoff/fault"
)

// As the process that a porter or its visitor is, this test binary is no test.
func init() {
	switch os.Getenv("AGENT_TEST_PORTER") {
	case "porter":
		if err := Porter(os.Args[1:], os.Stderr); err != nil {
			io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	case "via":
		Via(os.Args[1:])
	}
}

// porter starts one and returns its socket, whose path is longer than the
// address of a socket can be.
func porter(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan bool, 1), make(chan bool)
	go func() {
		defer close(ended)
		local.Conn{}.Exec(ctx, conn.Cmd{Argv: []string{os.Args[0], "./s"}, Dir: dir, Env: []string{"AGENT_TEST_PORTER=porter"},
			Stderr: notify(ready)})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatal("no porter after 20 s")
	}
	return filepath.Join(dir, "s")
}

type notify chan bool

func (n notify) Write(p []byte) (int, error) {
	if bytes.HasSuffix(p, []byte(PauseReady)) {
		n <- true
	}
	return len(p), nil
}

func visitWith(ctx context.Context, cmd conn.Cmd, socket string) (conn.Exit, error) {
	cmd.Argv = append([]string{os.Args[0], socket, "--"}, cmd.Argv...)
	cmd.Env = append(cmd.Env, "AGENT_TEST_PORTER=via")
	return Entered(cmd, func(cmd conn.Cmd) (conn.Exit, error) { return local.Conn{}.Exec(ctx, cmd) })
}

// What a porter starts has the visitor's streams, gets every argument as it
// is, and its end is the visitor's.
func TestPorter(t *testing.T) {
	socket := porter(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	exit, err := visitWith(ctx, conn.Cmd{Argv: []string{"/bin/sh", "-c", `cat; echo "$1|$2|$3" >&2; exit 9`, "sh", "", "a b\n", "\xff"},
		Stdin: strings.NewReader("input"), Stdout: &out, Stderr: &errs}, socket)
	if err != nil || exit.Code != 9 || exit.Signal != "" || out.String() != "input" || errs.String() != "|a b\n|\xff\n" {
		t.Errorf("%+v, %v, %q, %q", exit, err, out.String(), errs.String())
	}
	exit, err = visitWith(ctx, conn.Command("/bin/sh", "-c", "kill -KILL $$"), socket)
	if err != nil || exit.Signal != "killed" {
		t.Errorf("by a signal: %+v, %v", exit, err)
	}
	if _, err := visitWith(ctx, conn.Command("/no/such"), socket); !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "/no/such") {
		t.Errorf("no program: %v", err)
	}
	if _, err := visitWith(ctx, conn.Command("/bin/true"), socket+"x"); !fault.Is(err, fault.Lab) {
		t.Errorf("no porter: %v", err)
	}
}

// When the visitor goes, what it had started is killed; what that had left
// behind earlier is not.
func TestPorterVisitorGoes(t *testing.T) {
	socket := porter(t)
	beat := func(file string) string { return `while :; do echo >>"` + file + `"; sleep 0.01; done` }
	stays, goes := filepath.Join(t.TempDir(), "stays"), filepath.Join(t.TempDir(), "goes")
	size := func(file string) int64 {
		s, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return s.Size()
	}
	stop := filepath.Join(t.TempDir(), "stop")
	defer os.WriteFile(stop, nil, 0o644)
	script := `(while [ ! -e "` + stop + `" ]; do echo >>"` + stays + `"; sleep 0.01; done) >/dev/null 2>&1 </dev/null &`
	if exit, err := visitWith(t.Context(), conn.Command("/bin/sh", "-c", script), socket); err != nil || !exit.OK() {
		t.Fatal(exit, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		for size(goes) < 3 && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	visitWith(ctx, conn.Command("/bin/sh", "-c", beat(goes)), socket)
	deadline := time.Now().Add(20 * time.Second)
	for last := int64(-1); last != size(goes); time.Sleep(200 * time.Millisecond) {
		if last = size(goes); time.Now().After(deadline) {
			t.Fatal("the program outlived its visitor")
		}
	}
	for before := size(stays); size(stays) == before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was left behind has ended")
		}
	}
}

// A visitor may say anything.
func FuzzVisit(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x09/bin/true"))
	f.Add([]byte("\x00\x00\x00\x05a\x00\x00b\x00"))
	f.Add([]byte("\xff\xff\xff\xffa"))
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4 {
			return
		}
		size := binary.BigEndian.Uint32(data)
		argv, err := readVisit(size, bytes.NewReader(data[4:]))
		if err != nil {
			return
		}
		if want := string(data[4 : 4+size]); strings.Join(argv, "\x00") != want || argv[0] == "" {
			t.Errorf("%q was read as %q", want, argv)
		}
	})
}

// One that hands over no streams is told so, and the porter goes on.
func TestPorterRefuses(t *testing.T) {
	socket := porter(t)
	t.Chdir(filepath.Dir(socket))
	c, err := net.Dial("unix", "./s")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(c, "\x00\x00\x00\x09/bin/true"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if !bytes.Contains(answer, []byte("0 streams")) {
		t.Errorf("%q, %v", answer, err)
	}
	if exit, err := visitWith(t.Context(), conn.Command("/bin/true"), socket); err != nil || !exit.OK() {
		t.Error(exit, err)
	}
}
