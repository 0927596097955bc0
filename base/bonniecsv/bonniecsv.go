// Package bonniecsv knows the CSV of bonnie++ in format 1.98: which field holds which
// test, and how bonnie++ writes what was too fast to measure.
package bonniecsv

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strings"

	"bakeoff/base/labeled"
	"bakeoff/base/sample"
)

// Test is one test of bonnie++, and its fields in format 1.98.
type Test struct {
	Name, Doc string
	Rate      int // the field of its rate; its CPU share follows
	Latency   int // the field of its worst latency
	Files     bool
}

// Tests are those of bonnie++ in the order of the fields.
var Tests = []Test{
	{Name: "char-write", Doc: "bytes written one by one", Rate: 9, Latency: 38},
	{Name: "write", Doc: "bytes written in blocks", Rate: 11, Latency: 39},
	{Name: "rewrite", Doc: "bytes read, changed and written in blocks", Rate: 13, Latency: 40},
	{Name: "char-read", Doc: "bytes read one by one", Rate: 15, Latency: 41},
	{Name: "read", Doc: "bytes read in blocks", Rate: 17, Latency: 42},
	{Name: "seek", Doc: "random seeks with a read, 10 % also with a write", Rate: 19, Latency: 43},
	{Name: "create", Doc: "files created in order of their names", Rate: 26, Latency: 44, Files: true},
	{Name: "stat", Doc: "files looked up (stat) in order of their names", Rate: 28, Latency: 45, Files: true},
	{Name: "delete", Doc: "files deleted in order of their names", Rate: 30, Latency: 46, Files: true},
	{Name: "random-create", Doc: "files created in random order", Rate: 32, Latency: 47, Files: true},
	{Name: "random-stat", Doc: "files looked up (stat) in random order", Rate: 34, Latency: 48, Files: true},
	{Name: "random-delete", Doc: "files deleted in random order", Rate: 36, Latency: 49, Files: true},
}

// fields is the number of fields in format 1.98.
const fields = 50

// Operations reports whether a rate counts operations and not KiB.
func (m Test) Operations() bool { return m.Files || m.Name == "seek" }

// Unit is the unit of the rate: B/s, although the field has KiB/s, or op/s.
func (m Test) Unit() string {
	if m.Operations() {
		return "op/s"
	}
	return "B/s"
}

// Read returns the only line of CSV in format 1.98.
func Read(out []byte) ([]string, error) {
	reader := csv.NewReader(bytes.NewReader(out))
	reader.FieldsPerRecord = -1
	rows, err := reader.ReadAll()
	switch {
	case err != nil:
		return nil, fmt.Errorf("not CSV of bonnie++: %w", err)
	case len(rows) != 1:
		return nil, fmt.Errorf("the output has %d lines of CSV; expected one", len(rows))
	case rows[0][0] != "1.98":
		return nil, fmt.Errorf("unsupported format %.20q (expected 1.98)", rows[0][0])
	case len(rows[0]) != fields:
		return nil, fmt.Errorf("the line has %d fields; format 1.98 has %d", len(rows[0]), fields)
	}
	return rows[0], nil
}

// Figure parses a rate; 0 if the test was too fast, or was not run.
func Figure(text string) (float64, error) {
	if strings.Trim(text, "+") == "" {
		return 0, nil
	}
	v, err := labeled.Decimal(text)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%.20q is not a rate", text)
	}
	return v, nil
}

// CPU is the metric of the column %CPU of a test.
func (m Test) CPU() sample.Metric {
	return sample.LowerShare(m.Name+"-cpu", "CPU time of bonnie++ during "+m.Name+
		", as a share of the elapsed time (%CPU, a whole percentage); absent if too fast to measure")
}

// Share parses a column %CPU into a share; known is false if the test was too fast, or
// was not run.
func Share(text string) (share float64, known bool, err error) {
	if strings.Trim(text, "+") == "" {
		return 0, false, nil
	}
	v, err := labeled.Decimal(text)
	if err != nil || v < 0 {
		return 0, false, fmt.Errorf("%.20q is not a percentage", text)
	}
	return v / 100, true, nil
}

// Duration parses a latency into seconds: 22us, 116ms, 3s.
func Duration(text string) (float64, error) {
	if strings.Trim(text, "+") == "" {
		return 0, nil
	}
	if v, err := labeled.Quantity(text, map[string]float64{"us": 1e-6, "ms": 1e-3, "s": 1}); err == nil && v >= 0 {
		return v, nil
	}
	return 0, fmt.Errorf("%.20q is not a latency", text)
}
