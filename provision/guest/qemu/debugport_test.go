package qemu

import (
	"net"
	"strings"
	"testing"
	"time"

	"bakeoff/measure/boot/qemu"
	"bakeoff/provision/driver"
)

// What arrives is cut into lines and codes, and the log of QEMU then has them among its
// own events, where the source of recordings finds them.
func TestWritesOfADebugPort(t *testing.T) {
	guest, here := net.Pipe()
	w := &writes{port: "0x402"}
	done := make(chan struct{})
	go func() { defer close(done); w.readPort(here, true) }()
	for _, text := range []string{"Sea", "BIOS\r\nsecond\x1bline\n", "\x80\x01", "no end", "\x00"} {
		if _, err := guest.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	guest.Close()
	<-done
	now := time.Now()
	log := &driver.HypervisorLog{Stamp: time.Unix(2000, 0), At: now, Uncertainty: time.Microsecond, Text: []byte(
		"1@1000.000001:fw_cfg_add_file 1\n2@1000.000021:fw_cfg_select 0 key 0x0011 'kernel_data'\nnot an event\n")}
	w.mergeInto(log)
	var said []string
	for line := range strings.Lines(string(log.Text)) {
		if _, text, ok := strings.Cut(line, " us: "); ok {
			said = append(said, strings.TrimSpace(text))
			if !strings.HasPrefix(line, "0@1999.9") || !strings.Contains(line, ":debug_port_write port 0x402 within ") {
				t.Errorf("line %q", line)
			}
		}
	}
	want := []string{"SeaBIOS", "second", "0x1b", "line", "0x80", "0x01", "no end", "0x00"}
	if strings.Join(said, "|") != strings.Join(want, "|") || log.Lost {
		t.Errorf("got %q, want %q", said, want)
	}
	r, _, err := qemu.Read("log", log.Text)
	if err != nil || len(r.Spans) < len(want) {
		t.Errorf("%d spans, %v", len(r.Spans), err)
	}
}

// More than is kept is noted as lost, and a line has an end.
func TestADebugPortIsBounded(t *testing.T) {
	w := &writes{port: "0x80"}
	w.addBytes([]byte(strings.Repeat("x", 3*maxWrite)+"\n"), time.Now(), -1)
	if len(w.list) != 3 || w.lost {
		t.Errorf("%d lines, lost %v", len(w.list), w.lost)
	}
	w.addBytes([]byte(strings.Repeat("\x80", maxWrites)), time.Now(), -1)
	log := &driver.HypervisorLog{Stamp: time.Unix(1, 0), At: time.Now(), Text: []byte("1@1.000001:fw_cfg_add_file 1\n")}
	w.mergeInto(log)
	if !log.Lost || len(log.Text) > 40*maxWrites || !strings.Contains(string(log.Text), "within ? us: 0x80") {
		t.Errorf("lost %v, %d bytes", log.Lost, len(log.Text))
	}
}

func TestDebugPortArgs(t *testing.T) {
	m := Machine{DebugPort: "0x402", Dir: "/d"}
	if argv := strings.Join(m.CommandLine(), " "); !strings.Contains(argv, "isa-debugcon,iobase=0x402,chardev=debug") {
		t.Errorf("argv %s", argv)
	}
}
