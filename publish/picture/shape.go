package picture

import (
	"math"
	"strconv"
	"strings"

	"bakeoff/base/lists"
)

type point struct{ x, y float64 }

// shape is polylines, in user units.
type shape [][]point

// pathOf reads the data of a path that package chart wrote: the commands M, L, H, V, h
// and v.
func pathOf(d string) (out shape) {
	var at point
	var line []point
	flush := func() {
		if len(line) > 1 {
			out = append(out, line)
		}
		line = nil
	}
	for len(d) > 0 {
		command := d[0]
		end := strings.IndexFunc(d[1:], func(r rune) bool { return r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' && r != 'e' })
		if end < 0 {
			end = len(d) - 1
		}
		numbers := numbersOf(d[1 : 1+end])
		d = d[1+end:]
		next, ok := movedTo(command, at, numbers)
		if !ok {
			continue
		}
		if at = next; command == 'M' {
			flush()
		}
		line = append(line, at)
	}
	flush()
	return out
}

// movedTo is where a command of a path leads.
func movedTo(command byte, at point, numbers []float64) (point, bool) {
	switch {
	case (command == 'M' || command == 'L') && len(numbers) == 2:
		return point{numbers[0], numbers[1]}, true
	case command == 'H' && len(numbers) == 1:
		return point{numbers[0], at.y}, true
	case command == 'V' && len(numbers) == 1:
		return point{at.x, numbers[0]}, true
	case command == 'h' && len(numbers) == 1:
		return point{at.x + numbers[0], at.y}, true
	case command == 'v' && len(numbers) == 1:
		return point{at.x, at.y + numbers[0]}, true
	}
	return at, false
}

func numbersOf(text string) (out []float64) {
	for f := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ' ' || r == ',' }) {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || math.IsNaN(v) || math.Abs(v) > maxSide {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// dashLines cuts lines into the dashes of a pattern "5 4"; "" leaves them whole.
func dashLines(s shape, pattern string) shape {
	lengths := numbersOf(pattern)
	total := lists.Sum(lengths, func(l float64) float64 { return max(l, 0) })
	if !(total >= 0.5) {
		return s
	}
	var out shape
	for _, line := range s {
		i, left := 0, lengths[0]
		for k := 1; k < len(line); k++ {
			from, to := line[k-1], line[k]
			length := math.Hypot(to.x-from.x, to.y-from.y)
			for done := 0.0; done < length; {
				step := min(left, length-done)
				if i%2 == 0 {
					out = append(out, []point{pointAlong(from, to, done/length), pointAlong(from, to, (done+step)/length)})
				}
				done, left = done+step, left-step
				if left <= 1e-9 {
					i++
					left = max(lengths[i%len(lengths)], 1e-3)
				}
			}
		}
	}
	return out
}

func pointAlong(a, b point, t float64) point { return point{a.x + t*(b.x-a.x), a.y + t*(b.y-a.y)} }

// outline returns polygons that cover lines of a width, all of the same orientation, so
// that they add up where they overlap. Corners are round; round ends make a dot of a line
// without a length.
func outline(s shape, width float64, round bool) (out shape) {
	half := width / 2
	for _, line := range s {
		for k := range line {
			if round || k > 0 && k < len(line)-1 {
				out = append(out, diskAround(line[k], half))
			}
			if k == 0 {
				continue
			}
			a, b := line[k-1], line[k]
			length := math.Hypot(b.x-a.x, b.y-a.y)
			if length == 0 {
				continue
			}
			dx, dy := (b.x-a.x)/length*half, (b.y-a.y)/length*half
			out = append(out, []point{{a.x - dy, a.y + dx}, {a.x + dy, a.y - dx}, {b.x + dy, b.y - dx}, {b.x - dy, b.y + dx}})
		}
	}
	return out
}

// diskAround is a circle, with the orientation of outline's other polygons.
func diskAround(center point, radius float64) []point {
	const corners = 16
	out := make([]point, corners)
	for i := range out {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		out[i] = point{center.x + radius*cos, center.y + radius*sin}
	}
	return out
}
