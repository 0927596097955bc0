package affinity

import (
	"os/exec"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

func TestPrefix(t *testing.T) {
	for _, tt := range []struct {
		goos string
		cpus []int
		set  string
		want string // "": refused
	}{
		{"linux", []int{2, 3}, "", "/agent enter --cpus 2-3 --"},
		{"freebsd", []int{1}, "", "cpuset -l 1"},
		{"netbsd", []int{0, 1, 2}, "", "schedctl -A 0,1,2"},
		{"dragonfly", []int{1, 2}, "", "usched :0x6"},
		{"dragonfly", []int{64}, "", ""},
		{"illumos", []int{3}, "", "sh -c " + bind + " sh 3"},
		{"illumos", []int{2, 3}, "", ""},
		{"illumos", []int{2, 3}, "1", "psrset -e 1"},
		{"illumos", []int{2, 3}, "bench", "poolbind -p bench -e"},
		{"linux", []int{0}, "1", ""},
		{"openbsd", []int{0}, "", ""},
		{"darwin", []int{0}, "", ""},
		{"plan9", []int{0}, "", ""},
	} {
		got, err := Prefix(tt.goos, "/agent", tt.cpus, tt.set)
		if strings.Join(got, " ") != tt.want || (err == nil) != (tt.want != "") ||
			err != nil && !fault.Is(err, fault.Unsupported) {
			t.Errorf("%s %v %q: %q, %v; want %q", tt.goos, tt.cpus, tt.set, got, err, tt.want)
		}
	}
}

// The shell of the prefix becomes the program, with its arguments as they are.
func TestBindBecomesTheProgram(t *testing.T) {
	const program = "pbind() { [ \"$1 $2 $3\" = \"-b 3 $$\" ] || exit 9; echo bound; }; " + bind
	out, err := exec.Command("sh", "-c", program, "sh", "3", "printf", "<%s>", "a b", "$HOME").Output()
	if err != nil || string(out) != "<a b><$HOME>" {
		t.Errorf("%q, %v", out, err)
	}
}
