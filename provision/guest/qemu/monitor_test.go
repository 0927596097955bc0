package qemu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
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
	reply := func(line string, id int) string {
		if strings.Contains(line, "query-status") {
			return fmt.Sprintf("{\"timestamp\":{\"seconds\":1},"+
				"\"event\":\"RESUME\"}\r\n\r\n{\"return\":{\"status\":\"running\"},\"id\":%d}\r\n", id)
		}
		return fmt.Sprintf("{\"id\": %d, \"error\": {\"class\": \"CommandNotFound\", \"desc\": \"The command x has not been "+
			"found\"}}\n", id)
	}
	var status struct{ Status string }
	v, err := executeOn(t.Context(), monitor(t, reply), "query-status", nil, &status)
	if err != nil || status.Status != "running" || v != "7.2.22 (Debian 1:7.2)" {
		t.Errorf("got %+v, version %q, %v", status, v, err)
	}
	var refused *MonitorError
	if _, err := executeOn(t.Context(), monitor(t, reply), "x", map[string]int{"a": 1}, nil); !errors.As(err, &refused) ||
		refused.Class != "CommandNotFound" {
		t.Errorf("got %v", err)
	}
}

// An event that happens while a connection begins comes before the greeting.
func TestEventsBeforeTheGreeting(t *testing.T) {
	talk := func(early string, n int) (string, error) {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		go func() {
			for range n {
				fmt.Fprintln(theirs, early)
			}
			fmt.Fprintln(theirs, greeting)
			in := bufio.NewScanner(theirs)
			for id := 1; in.Scan(); id++ {
				fmt.Fprintf(theirs, "{\"return\": {}, \"id\": %d}\r\n", id)
			}
		}()
		return executeOn(t.Context(), ours, "stop", nil, nil)
	}
	const event = `{"timestamp": {"seconds": 1}, "event": "RESUME"}`
	if v, err := talk(event, 3); err != nil || !strings.HasPrefix(v, "7.2.22") {
		t.Errorf("version %q, %v", v, err)
	}
	if _, err := talk(event, mostEarly+1); err == nil || !strings.Contains(err.Error(), "not a QEMU monitor") {
		t.Errorf("a peer that never greets: %v", err)
	}
}

func TestWaitsEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	silent := func(string, int) string { return "" }
	if _, err := executeOn(ctx, monitor(t, silent), "query-status", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	ours, theirs := net.Pipe()
	go func() {
		fmt.Fprintln(theirs, greeting)
		bufio.NewReader(theirs).ReadString('\n')
		theirs.Close()
	}()
	if _, err := executeOn(t.Context(), ours, "query-status", nil, nil); !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

func TestNoMonitor(t *testing.T) {
	ours, theirs := net.Pipe()
	go fmt.Fprintln(theirs, `{"something": "else"}`)
	if _, err := executeOn(t.Context(), ours, "query-status", nil, nil); err == nil {
		t.Error("anything passes for a monitor")
	}
	ours, _ = net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := executeOn(ctx, ours, "query-status", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent one: %v", err)
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
