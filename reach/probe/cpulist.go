package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// FormatCPUs formats CPU numbers as the kernel does: 0,2-3.
func FormatCPUs(cpus []int) string {
	cpus = slices.Clone(cpus)
	slices.Sort(cpus)
	cpus = slices.Compact(cpus)
	var b strings.Builder
	for i := 0; i < len(cpus); {
		j := i
		for j+1 < len(cpus) && cpus[j+1] == cpus[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(cpus[i]))
		if j > i {
			b.WriteString("-" + strconv.Itoa(cpus[j]))
		}
		i = j + 1
	}
	return b.String()
}

// MaxCPU bounds the numbers that ParseCPUs accepts; Linux has at most 8192
// CPUs.
const MaxCPU = 1 << 16

// ParseCPUs parses such a list and returns the numbers, each once, in ascending
// order.
func ParseCPUs(list string) ([]int, error) {
	if list == "" {
		return nil, nil
	}
	var out []int
	for _, item := range strings.Split(list, ",") {
		first, last, isRange := strings.Cut(item, "-")
		if !isRange {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err != nil || err2 != nil || b < a || len(out)+int(b-a) >= MaxCPU {
			return nil, fmt.Errorf("%q is not a list of CPUs such as 0,2-3", list)
		}
		for ; a <= b; a++ {
			out = append(out, int(a))
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
