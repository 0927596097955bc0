package qemu

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
)

func TestDebugPortOption(t *testing.T) {
	for port, says := range map[string]string{"0x402": "", "128": "", "0": "is not an I/O port",
		"0x10000": "is not an I/O",
		"-1":      "is not an I/O port", "0x402,x": "is not an I/O port"} {
		o, err := decode(param.Values{optDebugPort: port})
		if says == "" && (err != nil || !strings.HasPrefix(o.debugPort, "0x")) ||
			says != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %q, %v", port, o.debugPort, err)
		}
	}
	err := refusal(counting(), param.Values{optDebugPort: "0x80", optClock: clockInstructions})
	if !fault.Is(err, fault.Unsupported) || !strings.HasPrefix(err.Error(), "debug-port: ") {
		t.Errorf("on the instruction clock: %v", err)
	}
}

// Every wrong value has its line, and the remedy is that of the first.
func TestEveryWrongValueIsNamed(t *testing.T) {
	_, err := decode(param.Values{optKernel: "vmlinuz", optAppend: "a\nb", optPartition: strings.Repeat("a", 37),
		optDebugPort: "x", optReady: "soon"})
	want := []string{"kernel must be an absolute path", `append: "a\nb" contains other`, "partition: ", "debug-port: ",
		"ready: write console:TEXT"}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) || !fault.Is(err, fault.Invalid) || !strings.Contains(fault.Fix(err), "absolute path") {
		t.Fatalf("kind %v, remedy %q: %v", fault.Of(err), fault.Fix(err), err)
	}
	for i, line := range lines {
		if !strings.HasPrefix(line, want[i]) {
			t.Errorf("line %d is %q, want %q", i, line, want[i])
		}
	}
}
