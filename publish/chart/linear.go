package chart

// Linear is the canvas of a figure whose rows stand on one linear axis.
type Linear struct {
	Rows
	Bottom    float64 // of the rows
	lo, hi    float64 // ends of the axis
	row, line float64 // height of a row, and from its top to its bar
}

// axisRoom is the height of the axis above the rows.
const axisRoom = 24.0

// BarHeight is the height of a bar on a Linear.
const BarHeight = 11.0

// NewLinear begins a figure with an axis from lo to hi, lo < hi. value is the room behind
// a wide plot.
func NewLinear[R any](id string, width, value float64, rows []R, label func(R) string, lo, hi float64) Linear {
	l := Linear{Rows: NewRows(id, width, 10, value, rows, label), lo: lo, hi: hi, row: 26, line: 13}
	if l.Narrow {
		l.row, l.line = 42, 27
	}
	l.Bottom = axisRoom + l.row*float64(len(rows)) + 6
	return l
}

// At returns the place of a value; one beyond an end of the axis is at that end.
func (l Linear) At(v float64) float64 {
	return l.X0 + min(max((v-l.lo)/(l.hi-l.lo), 0), 1)*(l.X1-l.X0)
}

// Axis draws the ticks, each with room for its label.
func (l Linear) Axis(unit string, room float64) {
	values, size := Ticks(l.lo, l.hi, int((l.X1-l.X0)/room))
	labels := TickLabels(values, size, unit)
	for i, v := range values {
		l.Tick(l.At(v), 14, axisRoom-4, l.Bottom, labels[i])
	}
}

// Upright draws a line at a value through all rows.
func (l Linear) Upright(v float64, class string) {
	l.Line(l.At(v), axisRoom-4, l.At(v), l.Bottom, class)
}

// Span draws a bar between two values, around y.
func (l Linear) Span(from, to, y float64, mark Mark) {
	l.Bar(l.At(from), y-BarHeight/2, l.At(to)-l.At(from), BarHeight, mark)
}

// Row draws row i: its name, its value, and what draw adds around y.
func (l Linear) Row(i int, name, value string, draw func(y float64)) {
	top := axisRoom + l.row*float64(i) + 2
	l.Begin("row", name+": "+value)
	l.Name(top, l.row, name, value)
	draw(top + l.line)
	l.End()
}
