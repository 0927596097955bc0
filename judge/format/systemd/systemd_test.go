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

func TestLeftOut(t *testing.T) {
	formattest.LeftOut(t, New(), []formattest.Mistake{
		{Name: "a comma", Text: "5.1s a.service\n 1min 2,3s b.service\n",
			Want: `x:2: " 1min 2,3s b.service" has a time that is not written as in`},
		{Name: "negative", Text: "5.1s a.service\n-3ms b.mount\n", Want: `x:2: "-3ms b.mount" has a time`},
	})
}
