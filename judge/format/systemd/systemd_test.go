package systemd

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestSuite(t *testing.T) { formattest.Run(t, New()) }

func FuzzRead(f *testing.F) { formattest.Fuzz(f, New()) }

// A time with a decimal comma is refused: 345 s would be wrong for 2,345s.
func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "comma", Text: "Startup finished in 2,345s (kernel) + 3,1s (userspace) = 5,445s\n",
			Want: "x:1: \"2,345s (kernel) + 3,1s (userspace) = 5,445s\" has a time that is not written as in 1min 2.345s"},
		{Name: "too early", Text: "Bootup is not yet finished (org.freedesktop.systemd1.Manager." +
			"FinishTimestampMonotonic=0).\nPlease try again later.\n",
			Want: "x:1: systemd-analyze ran before the boot had finished; run it again when"},
		{Name: "one comma", Text: "Startup finished in 1min 2.3s (kernel) + -3.1s (userspace) = 5.445s\n", Want: "x:1: "},
	})
}

// After a soft reboot, systemd names a phase of two words and no total.
func TestSoftReboot(t *testing.T) {
	out, err := New().Read("x", []byte("Startup finished in 812ms (soft reboot) + 3.101s (userspace) \n"))
	if err != nil || len(out.Records) != 2 || out.Records[0].Labels[1].Value != "soft reboot" ||
		out.Records[0].Series[0].Values[0] != 0.812 || len(out.Warnings) > 0 {
		t.Errorf("%+v, %v", out, err)
	}
}

// A boot that did not reach its target failed.
func TestTargetNotReached(t *testing.T) {
	for text, want := range map[string]int{"graphical.target was never reached.": 1, "graphical.target is not active.": 1,
		"graphical.target reached after 3.050s in userspace.": 0} {
		out, err := New().Read("x", []byte("Startup finished in 1s (kernel) + 3s (userspace) = 4s\n"+text+"\n"))
		if err != nil || len(out.Failures) != want {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}

func TestLeftOut(t *testing.T) {
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "a comma", Text: "5.1s a.service\n 1min 2,3s b.service\n",
			Want: `x:2: " 1min 2,3s b.service" has a time that is not written as in`},
		{Name: "negative", Text: "5.1s a.service\n-3ms b.mount\n", Want: `x:2: "-3ms b.mount" has a time`},
	})
}
