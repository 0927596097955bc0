package manifest

import (
	"strings"
	"testing"
)

// The files of all cells are in the volume at the same time; cells share a file of one name.
func TestFilesOfAllCellsFit(t *testing.T) {
	parse := func(first, second string) string {
		_, err := Parse("lab.yaml", []byte("schema: bakeoff/lab/v1\nname: x\nbaseline: a\n"+
			"contenders: [{name: a, driver: host, volumes: {/data: {backing: tmpfs, size: 100MiB}}}]\n"+
			"cells: [{name: one, workload: files, params: {size: "+first+"}}, {name: two, workload: cold, "+
			"params: {ram: 1MiB, size: "+second+"}}, {name: three, workload: files, params: {size: 1MiB}}]\n"), catalogue(), "")
		if err == nil {
			return ""
		}
		return err.Error()
	}
	for _, tt := range []struct{ first, second, want string }{
		{"50MiB", "50MiB", ""},
		{"51MiB", "50MiB", `lab.yaml:5:116: cell "two" keeps 50MiB in files, 101MiB with those of the cells before it, and ` +
			`the volume /data of contender "a" has 100MiB; write a smaller size, or a larger size of the volume`},
		{"101MiB", "50MiB", `lab.yaml:5:53: cell "one" keeps 101MiB in files, and the volume`},
	} {
		got := parse(tt.first, tt.second)
		if tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) || strings.Contains(got, "\n") {
			t.Errorf("%s and %s: %q, want %q", tt.first, tt.second, got, tt.want)
		}
	}
}
