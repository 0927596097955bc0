package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// realGuest starts QEMU without a lease.
func realGuest(t *testing.T, change func(*Machine)) (*Guest, context.Context) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts QEMU")
	}
	if _, err := exec.LookPath(Program); err != nil {
		t.Skip("needs " + Program + ": apt-get install qemu-system-x86")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	m := Machine{Program: Program, Label: "x", Kind: Q35, Accel: TCG, CPUs: 1, Memory: 64 * unit.MiB, Dir: t.TempDir()}
	change(&m)
	g, err := Start(ctx, Place{Host: local.Conn{}, Timeout: time.Minute}, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Kill(context.Background()) })
	return g, ctx
}

// A guest without a lease: it has a monitor, a power button that its firmware ignores, and
// ends when it is killed.
func TestGuestLives(t *testing.T) {
	g, ctx := realGuest(t, func(*Machine) {})
	if version, err := g.Verify(ctx); err != nil || version == "" {
		t.Errorf("version %q, %v", version, err)
	}
	var status struct{ Status string }
	if err := g.Execute(ctx, "query-status", nil, &status); err != nil || status.Status != "running" {
		t.Errorf("got %+v, %v", status, err)
	}
	var err error
	for _, limit := range []time.Duration{time.Second, 10 * time.Second, time.Minute} {
		pressed, cancel := context.WithTimeout(ctx, limit)
		err = g.Stop(pressed)
		cancel()
		if err == nil || strings.Contains(err.Error(), "not powered itself off") {
			break // otherwise the monitor of a busy machine has not answered in time
		}
	}
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "not powered itself off") {
		t.Errorf("the firmware has a handler of the power button: %v", err)
	}
	if err := g.Kill(ctx); err != nil {
		t.Error(err)
	}
	if _, err := g.Verify(ctx); err == nil {
		t.Error("the monitor outlives QEMU")
	}
}

// The debug port is read from the first write on: the firmware reports itself there.
func TestGuestWritesToItsDebugPort(t *testing.T) {
	g, ctx := realGuest(t, func(m *Machine) { m.DebugPort, m.Watch = "0x402", true })
	if err := g.Process.Until(ctx, time.Minute, func() error {
		log, err := g.Log(ctx)
		if err == nil && !strings.Contains(string(log.Text), "port 0x402 within") {
			err = fault.New(fault.Subject, "nothing was written to the port")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// What QEMU refuses is the lab's fault, with its message.
func TestGuestThatQEMURefuses(t *testing.T) {
	g, ctx := realGuest(t, func(m *Machine) {
		m.Disks = []Disk{{Serial: RootSerial, Path: "/no/such/disk", Format: "raw"}}
	})
	err := g.Process.Until(ctx, time.Minute, func() error { return errors.New("it runs") })
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "/no/such/disk") {
		t.Errorf("got %v", err)
	}
}

// button is a host with a machine that powers itself off when its button is pressed.
type button struct {
	conn.Conn
	t       *testing.T
	pressed chan struct{}
}

func (b button) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	<-b.pressed
	return conn.Exit{}, nil
}

func (b button) Dial(context.Context, string, string) (net.Conn, error) {
	return monitor(b.t, func(line string, id int) string {
		if strings.Contains(line, `"system_powerdown"`) {
			close(b.pressed)
		}
		return fmt.Sprintf("{\"return\": {}, \"id\": %d}\n", id)
	}), nil
}

func TestStop(t *testing.T) {
	host := button{t: t, pressed: make(chan struct{})}
	g, err := Start(t.Context(), Place{Host: host, Timeout: time.Minute}, ordinary())
	if err == nil {
		err = g.Stop(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}
