package agent

import (
	"bytes"
	"errors"
	"slices"
	"syscall"
	"testing"

	"bakeoff/reach/wire"
)

// The records of a kernel come from the kernel itself: a guest may have no other program than
// the agent.
func TestRecordsOfAKernelNeedNoPrograms(t *testing.T) {
	settings := map[string]string{
		"debug.tslog":      "0x1 1000 ENTER main\n0x1 2000 EXIT start_init\n\x00",
		"debug.tslog_user": "1 0 3000 0 \"/sbin/init\" \"\"\n\x00",
		"machdep.tsc_freq": "\x00\x94\x35\x77\x00\x00\x00\x00",
		"kern.msgbuf":      "\x00\x00[   1.0000000] NetBSD 10.99.12\n",
	}
	read := func(name string) ([]byte, error) {
		if text, ok := settings[name]; ok {
			return []byte(text), nil
		}
		return nil, errors.New("no such sysctl")
	}
	logs := kernelRecords(read)
	want := []wire.SystemLog{
		{
			Source: "tslog",
			Text:   "0x1 1000 ENTER main\n0x1 2000 EXIT start_init\n1 0 3000 0 \"/sbin/init\" \"\"\n2000000000\n",
		},
		{Source: "dmesg", Text: "[   1.0000000] NetBSD 10.99.12\n"}}
	if !slices.Equal(logs, want) {
		t.Errorf("got %q", logs)
	}
	// A kernel without tslog(4) still has messages.
	delete(settings, "debug.tslog")
	settings["kern.msgbuf"] = "\x00"
	want = []wire.SystemLog{{Source: "tslog", Error: "no such sysctl"},
		{Source: "dmesg", Error: "sysctl kern.msgbuf is empty"}}
	if logs := kernelRecords(read); !slices.Equal(logs, want) {
		t.Errorf("got %q", logs)
	}
}

// The kernels behave as NetBSD 10.99.12 does.
func TestSettingsOfUnknownLength(t *testing.T) {
	long := bytes.Repeat([]byte("0x0 744661714 ENTER main\n"), 10_000)
	counters := append(bytes.Repeat([]byte{7}, 599), 0)
	reads := 0
	tslog := func(text []byte) func([]byte) (int, error) {
		needed := 0
		return func(room []byte) (int, error) {
			if len(room) < needed {
				return needed, syscall.ENOMEM
			}
			if room == nil {
				needed = len(text) * 9 / 10 // the log grows before it is read
				return needed, nil
			}
			reads++
			copy(room, text)
			return len(room), nil
		}
	}
	capped := func(text []byte) func([]byte) (int, error) {
		return func(room []byte) (int, error) { return copy(room, text), nil }
	}
	for name, tt := range map[string]struct {
		get  func([]byte) (int, error)
		want []byte
	}{
		"vm.uvmexp2":             {capped(counters), counters},
		"longer than any":        {capped(long), long},
		"debug.tslog":            {tslog(long), long},
		"debug.tslog, and short": {tslog(long[:250]), long[:250]},
		"empty":                  {capped(nil), nil},
	} {
		for range 2 {
			reads = 0
			got, err := wholeSetting(tt.get)
			text := bytes.TrimRight(got, "\x00")
			if want := bytes.TrimRight(tt.want, "\x00"); err != nil || !bytes.Equal(text, want) || reads > 1 {
				t.Errorf("%s: %d bytes after %d reads, %v; want %d", name, len(text), reads, err, len(want))
			}
		}
	}
	for _, refusal := range []error{syscall.EPERM, syscall.ENOMEM} {
		got, err := wholeSetting(func([]byte) (int, error) { return 0, refusal })
		if got != nil || !errors.Is(err, refusal) {
			t.Errorf("%v: %q, %v", refusal, got, err)
		}
	}
}
