package bootlog

import (
	"errors"
	"slices"
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
