package qmp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const greeting = `{"QMP": {"version": {"qemu": {"micro": 22, "minor": 2, "major": 7}, "package": "Debian 1:7.2"}, ` +
	`"capabilities": ["oob"]}}`

// monitor answers each line with what reply says of it.
func monitor(t testing.TB, reply func(line string, id int) string) net.Conn {
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	go func() {
		fmt.Fprintln(theirs, greeting)
		in := bufio.NewScanner(theirs)
		for id := 1; in.Scan(); id++ {
			if strings.Contains(in.Text(), "qmp_capabilities") {
				fmt.Fprintf(theirs, "{\"return\": {}, \"id\": %d}\r\n", id)
				continue
			}
			fmt.Fprint(theirs, reply(in.Text(), id))
		}
	}()
	return ours
}

func TestExecute(t *testing.T) {
	c, err := New(t.Context(), monitor(t, func(line string, id int) string {
		if strings.Contains(line, "query-status") {
			return fmt.Sprintf("{\"timestamp\":{\"seconds\":1},"+
				"\"event\":\"RESUME\"}\r\n\r\n{\"return\":{\"status\":\"running\"},\"id\":%d}\r\n", id)
		}
		return fmt.Sprintf("{\"id\": %d, \"error\": {\"class\": \"CommandNotFound\", \"desc\": \"The command x has not been "+
			"found\"}}\n", id)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Version().String(); got != "7.2.22 (Debian 1:7.2)" {
		t.Errorf("version %q", got)
	}
	var status struct{ Status string }
	if err := c.Execute(t.Context(), "query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("got %+v, %v", status, err)
	}
	var refused *Error
	if err := c.Execute(t.Context(), "x", map[string]int{"a": 1}, nil); !errors.As(err, &refused) ||
		refused.Class != "CommandNotFound" {
		t.Errorf("got %v", err)
	}
}

func TestWaitsEnd(t *testing.T) {
	c, err := New(t.Context(), monitor(t, func(string, int) string { return "" }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Execute(ctx, "query-status", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	go func() {
		time.Sleep(50 * time.Millisecond)
		c.Close()
	}()
	if err := c.Execute(t.Context(), "query-status", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := c.Execute(t.Context(), "query-status", nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestNoMonitor(t *testing.T) {
	ours, theirs := net.Pipe()
	go fmt.Fprintln(theirs, `{"something": "else"}`)
	if _, err := New(t.Context(), ours); err == nil {
		t.Error("anything passes for a monitor")
	}
	ours, _ = net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := New(ctx, ours); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent one: %v", err)
	}
}

func TestRealMonitor(t *testing.T) {
	if testing.Short() {
		t.Skip("starts QEMU")
	}
	program, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		t.Skip("needs qemu-system-x86_64: apt-get install qemu-system-x86")
	}
	path := filepath.Join(t.TempDir(), "q")
	cmd := exec.Command(program, "-M", "none", "-nodefaults", "-display", "none", "-S", "-qmp",
		"unix:"+path+",server=on,wait=off")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var rw net.Conn
	for range 3000 {
		if rw, err = net.Dial("unix", path); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := New(ctx, rw)
	if err != nil {
		t.Fatal(err)
	}
	var status struct{ Status string }
	if err := c.Execute(ctx, "query-status", nil, &status); err != nil || status.Status != "prelaunch" {
		t.Errorf("got %+v, %v", status, err)
	}
	if err := c.Execute(ctx, "quit", nil, nil); err != nil && !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		t.Error("the connection outlives QEMU")
	}
}

func FuzzReadMessage(f *testing.F) {
	f.Add([]byte(greeting + "\n"))
	f.Add([]byte("\r\n{\"return\": {}, \"id\": 1}\r\n{\"event\": \"STOP\"}\n"))
	f.Add([]byte(`{"id": "text", "error": {}}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := bufio.NewReader(bytes.NewReader(data))
		for range len(data) + 1 {
			if _, err := readMessage(in); err != nil {
				return
			}
		}
		t.Error("more messages than bytes")
	})
}
