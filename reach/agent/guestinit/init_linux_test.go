package guestinit

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"

	"golang.org/x/sys/unix"

	"bakeoff/reach/wire"
)

// A serial line carries every byte as it is, in both directions: a pseudo
// terminal treats them as a real one does until it is told not to.
func TestServeOnATerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("needs a pseudo terminal: %v", err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	line, err := openPort(fmt.Sprintf("/dev/pts/%d", n))
	if err != nil {
		t.Fatal(err)
	}
	go serve.Host(context.Background(), line, serve.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := channel.Open(ctx, master, channel.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := make([]byte, 256*64)
	for i := range all {
		all[i] = byte(i)
	}
	var out bytes.Buffer
	if exit, err := c.Exec(ctx, conn.Cmd{Argv: []string{"cat"}, Stdin: bytes.NewReader(all),
		Stdout: &out}); err != nil || !exit.OK() {
		t.Fatal(exit, err)
	}
	if !bytes.Equal(out.Bytes(), all) {
		t.Errorf("%d bytes came back of %d, and not the same", out.Len(), len(all))
	}
}

func TestInitIsForProcessOne(t *testing.T) {
	var said bytes.Buffer
	if code := Run(command.Call{Stderr: &said}); code != wire.ExitInvalid || said.Len() == 0 {
		t.Errorf("code %d, %q", code, &said)
	}
}

func TestVolumesStayBelowRoot(t *testing.T) {
	for _, p := range []string{"", "relative", "/", "//"} {
		if err := mountVolume(wire.InitVolume{Path: p, Type: "tmpfs"}); err == nil {
			t.Errorf("a volume at %q was mounted", p)
		}
	}
}

func TestSettingsStayBelowTheirs(t *testing.T) {
	for _, name := range []string{"no.such", "//.//.etc.passwd", "", ".."} {
		if err := setSysctl(wire.InitSetting{Name: name, Value: "x"}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

func TestInitramfsRefusesWhatCannotBeInit(t *testing.T) {
	dir := t.TempDir()
	text := dir + "/text"
	if err := os.WriteFile(text, []byte("#!/bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	kernel := dir + "/kernel"
	if err := os.WriteFile(kernel, []byte("\x7fELF with everything built in"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := writeInitramfs(wire.InitramfsRequest{Kernel: kernel, Agent: text, Out: dir + "/out"})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("a text as /init: %v", err)
	}
	if _, err := os.Stat(dir + "/out"); err == nil {
		t.Error("half a RAM disk was left")
	}
	if _, err := writeInitramfs(wire.InitramfsRequest{Kernel: dir + "/none", Agent: text,
		Out: dir + "/out"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("no kernel: %v", err)
	}
}
