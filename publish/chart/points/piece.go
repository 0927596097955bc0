package points

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"bakeoff/base/lists"
	"bakeoff/base/unit"
	"bakeoff/publish/chart"
)

// piece is a part of the axis with a linear scale of its own.
type piece struct {
	lo, hi float64 // values, lo < hi
	x0, x1 float64 // user units
}

func (p piece) positionOf(v float64) float64 {
	return p.x0 + (v-p.lo)/(p.hi-p.lo)*(p.x1-p.x0)
}

func (p piece) holdsValue(v float64) bool { return v >= p.lo && v <= p.hi }

// largestSize is the largest value on the piece, without its sign.
func (p piece) largestSize() float64 { return max(math.Abs(p.lo), math.Abs(p.hi)) }

// roundTicks are round values on the piece, in ascending order. Where pieces are of
// different sizes the first bears the unit with its prefix.
func (p piece) roundTicks(u string, withUnit bool) (out []tick) {
	scale, own := unit.Prefix(p.largestSize(), u)
	values, step := chart.Ticks(p.lo, p.hi, min(max(int((p.x1-p.x0)/60), 2), 8))
	for i := range values {
		values[i] /= scale
	}
	labels, _ := chart.Labels(values, step/scale, "")
	if withUnit {
		labels[0] = strings.TrimSpace(labels[0] + " " + own)
	}
	for i, v := range values {
		out = append(out, tick{p.positionOf(v * scale), labels[i]})
	}
	return out
}

func pieceHolding(ps []piece, v float64) *piece {
	for i := range ps {
		if ps[i].holdsValue(v) {
			return &ps[i]
		}
	}
	return nil
}

// findAll returns the piece that holds both values.
func findAll(ps []piece, a, b *float64) *piece {
	if a == nil || b == nil || *a > *b {
		return nil
	}
	if p := pieceHolding(ps, *a); p != nil && p.holdsValue(*b) {
		return p
	}
	return nil
}

// most is how many pieces an axis is broken into at most: each must stay
// wide enough to be read.
const most = 4

// farApart is the share of all that single values span from which on a gap
// between two of them is a break of the axis.
const farApart = 0.4

// breakAxis breaks the axis where rows are so far apart that, on one scale,
// the spread inside them could not be seen: at gaps wider than twice all
// that the rows themselves span.
func breakAxis(rows []Row, x0, x1 float64) []piece {
	ranges := mergedSpans(rows)
	if len(ranges) == 0 {
		return nil
	}
	// Where no row has a spread there is none to be seen; a break then only
	// keeps what is near apart from what is far.
	least := 0.0
	if !slices.ContainsFunc(ranges, func(r [2]float64) bool { return r[1] > r[0] }) {
		least = farApart * (ranges[len(ranges)-1][1] - ranges[0][0])
	}
	for len(ranges) > 1 {
		own, gap, at := 0.0, math.Inf(1), 0
		for i, r := range ranges {
			own += r[1] - r[0]
			if i > 0 && r[0]-ranges[i-1][1] < gap {
				gap, at = r[0]-ranges[i-1][1], i
			}
		}
		if len(ranges) <= most && gap > max(2*own, least) {
			break
		}
		ranges[at-1][1] = max(ranges[at-1][1], ranges[at][1])
		ranges = slices.Delete(ranges, at, at+1)
	}
	return placePieces(ranges, x0, x1)
}

// mergedSpans returns the range of each row, sorted, overlapping ones merged.
func mergedSpans(rows []Row) [][2]float64 {
	var out [][2]float64
	for _, r := range rows {
		vs := finiteValues(r.Values)
		for _, v := range []*float64{r.Median, r.Lo, r.Hi} {
			if chart.Known(v) {
				vs = append(vs, *v)
			}
		}
		if len(vs) > 0 {
			out = append(out, [2]float64{slices.Min(vs), slices.Max(vs)})
		}
	}
	slices.SortFunc(out, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
	var merged [][2]float64
	for _, r := range out {
		if n := len(merged); n > 0 && r[0] <= merged[n-1][1] {
			merged[n-1][1] = max(merged[n-1][1], r[1])
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// placePieces gives each range its share of the width, half of it in equal parts
// and half by what it spans, and some room at its ends.
func placePieces(ranges [][2]float64, x0, x1 float64) []piece {
	total := lists.Sum(ranges, func(r [2]float64) float64 { return r[1] - r[0] })
	room := x1 - x0 - gapW*float64(len(ranges)-1)
	var out []piece
	x := x0
	for _, r := range ranges {
		share := 1 / float64(len(ranges))
		if total > 0 && !math.IsInf(total, 0) {
			share = (share + (r[1]-r[0])/total) / 2
		}
		w := room * share
		// Eight per cent of room on both sides; a range of one value gets a
		// hundredth of that value, so that it has a scale at all.
		pad := 0.08 * (r[1] - r[0])
		if pad == 0 {
			pad = max(math.Abs(r[0])*0.01, 1e-300)
		}
		out = append(out, piece{lo: r[0] - pad, hi: r[1] + pad, x0: x, x1: x + w})
		x += w + gapW
	}
	return out
}
