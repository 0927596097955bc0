package chart

import (
	"bytes"
	"encoding/csv"
	"strconv"
	"strings"

	"bakeoff/base/lists"
)

// Measured is a figure with its numbers for programs.
type Measured interface {
	Figure
	Data() Data
}

// Data are the numbers of a figure, as programs read them: Table is for eyes.
type Data struct {
	Columns []Column
	Rows    [][]Cell // each as long as Columns
}

// Column names what is in a column. Unit is that of its numbers, "" for texts and for numbers
// without one.
type Column struct {
	Name, Unit string
	Number     bool
}

// Head is the name of a column with its unit: "median (s)".
func (c Column) Head() string {
	if c.Unit == "" || c.Unit == "1" {
		return c.Name
	}
	return c.Name + " (" + c.Unit + ")"
}

// Cell is a text or a number.
type Cell struct {
	Text  string
	Value *float64 // of a column of numbers; nil is not known, and empty in a file
}

// Texts are columns of texts.
func Texts(names ...string) (out []Column) {
	return lists.Map(names, func(n string) Column { return Column{Name: n} })
}

// Numbers are columns of numbers in one unit.
func Numbers(unit string, names ...string) (out []Column) {
	return lists.Map(names, func(n string) Column { return Column{Name: n, Unit: unit, Number: true} })
}

// Word is a cell of text.
func Word(s string) Cell { return Cell{Text: s} }

// Num is a cell with a number, or one that is not known.
func Num(v *float64) Cell {
	if !Known(v) {
		return Cell{}
	}
	return Cell{Value: v}
}

// Count is a cell with a number.
func Count[N int | int64](n N) Cell {
	return Cell{Value: new(float64(n))}
}

// CSV writes the data with a point in numbers and no prefix of a unit. Columns that stand for
// all rows may follow. A name that a spreadsheet would take for a formula gets an apostrophe.
func (d Data) CSV(more ...[2]string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	var head, tail []string
	for _, c := range d.Columns {
		head = append(head, plainCell(c.Head()))
	}
	for _, m := range more {
		head, tail = append(head, plainCell(m[0])), append(tail, plainCell(m[1]))
	}
	w.Write(head)
	for _, row := range d.Rows {
		var out []string
		for i, c := range row {
			switch {
			case c.Value != nil:
				out = append(out, strconv.FormatFloat(*c.Value, 'g', -1, 64))
			case d.Columns[i].Number:
				out = append(out, "")
			default:
				out = append(out, plainCell(c.Text))
			}
		}
		w.Write(append(out, tail...))
	}
	w.Flush()
	return b.Bytes() // writing to memory cannot fail
}

// plainCell makes a cell that is not a formula: https://owasp.org/www-community/attacks/CSV_Injection
func plainCell(s string) string {
	if s == "" {
		return s
	}
	sign := strings.ContainsRune("+-", rune(s[0])) && (len(s) < 2 || !strings.ContainsRune("0123456789.", rune(s[1])))
	if sign || strings.ContainsRune("=@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
