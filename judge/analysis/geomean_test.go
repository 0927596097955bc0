package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// A geometric mean has one value for each block that has all cells. Noise that the cells
// of a block share cancels in neither its ratios nor its interval; a cell with a failed
// trial is left out.
func TestGeomeans(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("block,position,contender,workload,metric,unit,better,value\n")
	row := func(block int, who, cell string, value any) {
		position := map[string]int{"a": 0, "b": 1}[who]
		if block%2 == 1 {
			position = 1 - position
		}
		fmt.Fprintf(&csv, "%d,%d,%s,%s,time,s,lower,%v\n", block, position, who, cell, value)
	}
	for b := range 10 {
		shared := 1 + float64(b%5-2)/100 // of both cells of b in a block
		row(b, "a", "x", 2.0)
		row(b, "b", "x", 4*shared)
		row(b, "a", "y", 3.0)
		if b > 0 {
			row(b, "b", "y", 24*shared)
		}
		row(b, "a", "z", 1.0)
		row(b, "b", "z", map[bool]any{true: "failed", false: 1.0}[b == 3])
		row(b, "a", "only", 1.0)
	}
	rs, err := ReadTable(strings.NewReader(csv.String()), "t.csv", TableOptions{Margin: 0.02})
	if err != nil || len(rs) != 1 || len(rs[0].Geomeans) != 1 {
		t.Fatalf("%+v, %v", rs, err)
	}
	g := rs[0].Geomeans[0]
	if g.Contender != "b" || g.Baseline != "a" || g.Cells != 2 || g.LeftOut != 1 || g.Blocks != 9 ||
		math.Abs(*g.Ratio/4-1) > .01 || *g.CI[0] > 4*.995 || *g.CI[1] < 4*1.005 {
		t.Errorf("%+v %v [%v, %v]", g, *g.Ratio, *g.CI[0], *g.CI[1])
	}
}
