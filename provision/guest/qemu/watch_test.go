package qemu

import (
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/conn"
)

// Events are kept with their times. Messages of QEMU lose theirs, and go on.
func TestEvents(t *testing.T) {
	rest := &conn.Tail{Limit: 1 << 10}
	e := &events{rest: rest}
	for _, part := range []string{"7@1795508914.207116:fw_cfg_add_bytes key 0x0000 'signature', 4 bytes\n7@1795508914.2",
		"36523:fw_cfg_select 0x5627 key 0x0019 'file_dir', ret: 1\n2026-11-24T08:26:54.052531Z qemu: term",
		"inating\nplain\n"} {
		if n, err := e.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	log := e.keptLog()
	got := string(log.Text)
	if strings.Count(got, "\n") != 2 || !strings.HasSuffix(got, "'file_dir', ret: 1\n") || log.Lost {
		t.Errorf("kept %q", got)
	}
	if got = string(rest.Bytes()); got != "qemu: terminating\nplain\n" {
		t.Errorf("the rest is %q", got)
	}
	line := "7@1795508914.207116:pic_ioport_write " + strings.Repeat("x", 1000) + "\n"
	for range maxEvents/len(line) + 1 {
		e.Write([]byte(line))
	}
	if log := e.keptLog(); !log.Lost || len(log.Text) > maxEvents || !strings.HasSuffix(string(log.Text), "x\n") {
		t.Errorf("kept %d bytes, lost %v", len(log.Text), log.Lost)
	}
	endless := &events{rest: rest}
	for range 3 {
		endless.Write([]byte(strings.Repeat("y", maxEvents)))
	}
	if len(endless.partial) >= maxEvents || endless.keptLog() != nil {
		t.Errorf("a line without an end: %d bytes wait", len(endless.partial))
	}
}

func TestParseDate(t *testing.T) {
	if got, err := parseDate("1795508914.000000120"); err != nil || !got.Equal(time.Unix(1795508914, 120)) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "1795508914", "1795508914.N", "1795508914.%N", "x.000000001", "1.000"} {
		if _, err := parseDate(text); !fault.Is(err, fault.Lab) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestWatchArgs(t *testing.T) {
	m := ordinary()
	if text := strings.Join(m.CommandLine(), " "); strings.Contains(text, "-trace") {
		t.Errorf("%s traces without being asked", text)
	}
	m.Watch = true
	if argv := m.CommandLine(); !has(argv, "-msg", "timestamp=on", "-trace", "enable=fw_cfg_add_*") {
		t.Errorf("got %q", argv)
	}
}
