package probe

import (
	"os"
	"slices"
	"testing"
)

// schedstat returns an output of testdata/schedstat; its README says where it
// is from.
func schedstat(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/schedstat/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// takes compares a time with what it should be; 0 is for unavailable.
func takes(t *testing.T, what string, got *int64, want int64) {
	t.Helper()
	switch {
	case got == nil && want != 0:
		t.Errorf("%s is unavailable, and %d ns is right", what, want)
	case got != nil && *got != want:
		t.Errorf("%s is %d ns, and %d is right", what, *got, want)
	}
}

func TestSchedstat(t *testing.T) {
	for _, version := range []string{"version-15", "version-16", "version-17"} {
		text := schedstat(t, version)
		takes(t, version+": CPU 1", parseSchedstat(text, []int{1}), 1242970000123)
		takes(t, version+": CPUs 3 and 0", parseSchedstat(text, []int{3, 0}), 7260000456+2422401234567)
		takes(t, version+": all", parseSchedstat(text, nil), 2422401234567+1242970000123+7260000456)
		takes(t, version+": a CPU that is offline", parseSchedstat(text, []int{0, 2}), 0)
	}
	takes(t, "a real guest's", parseSchedstat(schedstat(t, "debian12-linux-6.1"), []int{0}), 4417600341)
}

func TestSchedstatOfOtherKernels(t *testing.T) {
	const line = "cpu0 0 0 1 1 1 1 5000 1 1\n"
	takes(t, "version 15", parseSchedstat("version 15\n"+line, nil), 5000)
	for what, text := range map[string]string{
		"no file":                     "",
		"a version of another form":   "version 18\n" + line,
		"a version before nanosecond": "version 14\n" + line,
		"a CPU that ran nothing":      "version 15\ncpu0 0 0 0 0 0 0 0 0 0\n",
		"a line that is short":        "version 15\ncpu0 0 0 1 1 1 1 5000 1\n",
		"a number that is none":       "version 15\ncpu0 0 0 1 1 1 1 -5000 1 1\n",
		"one that is too large":       "version 15\ncpu0 0 0 1 1 1 1 9223372036854775807 1 1\ncpu1 0 0 1 1 1 1 1 1 1\n",
	} {
		takes(t, what, parseSchedstat(text, nil), 0)
	}
}

func TestUsagePerCPU(t *testing.T) {
	text, possible := stored(t, "cpuacct.usage_percpu"), "0-1\n"
	takes(t, "CPU 1", parseUsagePerCPU(text, possible, []int{1}), 1155198236723)
	takes(t, "both", parseUsagePerCPU(text, possible, []int{0, 1}), 471999486741+1155198236723)
	takes(t, "all", parseUsagePerCPU(text, possible, nil), 471999486741+1155198236723)
	takes(t, "all but one that never came up", parseUsagePerCPU("7 0 9 \n", "0-2", nil), 16)
	takes(t, "the only one", parseUsagePerCPU("7 \n", "0\n", []int{0}), 7)
	takes(t, "one that never came up", parseUsagePerCPU("7 0 9 \n", "0-2", []int{1}), 0)
	takes(t, "one that is not there", parseUsagePerCPU(text, possible, []int{2}), 0)
	takes(t, "numbers with gaps between them", parseUsagePerCPU("7 8 \n", "0,8\n", []int{1}), 0)
	takes(t, "a number that is none", parseUsagePerCPU("7 x \n", "0-1\n", []int{0}), 0)
	takes(t, "nothing", parseUsagePerCPU("", "", nil), 0)
}

func TestAccountMounts(t *testing.T) {
	if got := accountMounts(parseMounts(stored(t, "mountinfo-cgroup"))); !slices.Equal(got,
		[]string{"/sys/fs/cgroup/cpuacct"}) {
		t.Errorf("mounted at %q", got)
	}
	const joined = "36 25 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
	if got := accountMounts(parseMounts(joined)); !slices.Equal(got, []string{"/sys/fs/cgroup/cpu,cpuacct"}) {
		t.Errorf("mounted at %q", got)
	}
	if got := accountMounts(parseMounts("36 25 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,cpuacct\n")); got != nil {
		t.Errorf("mounted at %q, where version 2 is", got)
	}
}

// FuzzTaskTime gives any text to the parsers: what they believe is a time.
func FuzzTaskTime(f *testing.F) {
	for _, version := range []string{"version-15", "version-16", "version-17"} {
		f.Add(schedstat(f, version), "")
	}
	f.Add(stored(f, "cpuacct.usage_percpu"), "0-1\n")
	f.Add("9223372036854775807 9223372036854775807", "0-1")
	f.Add("version 15\ncpu-1 0 0 0 0 0 0 1 0 0\ncpu 0 0 0 0 0 0 1 0 0\n", "0")
	f.Fuzz(func(t *testing.T, s, possible string) {
		for _, cpus := range [][]int{nil, {0}, {0, 1}} {
			for _, ns := range []*int64{parseSchedstat(s, cpus), parseUsagePerCPU(s, possible, cpus)} {
				if ns != nil && *ns <= 0 {
					t.Errorf("CPUs %v ran tasks for %d ns", cpus, *ns)
				}
			}
		}
		accountMounts(parseMounts(s))
	})
}
