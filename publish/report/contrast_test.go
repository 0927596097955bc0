package report

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Text has a contrast of 4.5 to 1 at least, and what figures are drawn with of
// 3 to 1, on every ground that it stands on, in the light and in the dark:
// https://www.w3.org/TR/WCAG22/#contrast-minimum and #non-text-contrast.
func TestContrast(t *testing.T) {
	light, dark := palettes(t)
	printed := map[string]string{}
	for k, v := range light {
		printed[k] = v
	}
	printed["paper"] = "#fff"
	for scheme, colors := range map[string]map[string]string{"light": light, "dark": dark, "print": printed} {
		for _, x := range []struct {
			least      float64
			ink, paper string
		}{
			{4.5, "ink soft link better-text worse-text same-text open-text alarm", "paper"},
			{4.5, "ink soft link", "panel"},
			{4.5, "ink soft", "band"},
			{4.5, "ink link alarm", "alarm-paper"},
			{4.5, "paper", "base"}, // the share inside a bar
			{3, "focus better worse base dot ink", "paper"},
			{3, "ink", "band"},                       // whiskers; over a bar they have a halo of paper
			{3, "same-text open-text soft", "paper"}, // the edges of pale bars
		} {
			for _, ink := range strings.Fields(x.ink) {
				if got := contrast(t, colors, ink, x.paper); got < x.least {
					t.Errorf("%s: --%s on --%s has %.2f to 1, want %v", scheme, ink, x.paper, got, x.least)
				}
			}
		}
	}
}

// palettes are the colors of the style sheet by name; the dark ones are over
// the light ones.
func palettes(t *testing.T) (light, dark map[string]string) {
	t.Helper()
	roots := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(pageCSS, -1)
	if len(roots) < 3 || strings.Index(pageCSS, "screen and (prefers-color-scheme: dark)") > strings.Index(pageCSS,
		roots[1][0]) {
		t.Fatal("the style sheet has no light, dark and printed colors in this order")
	}
	light, dark = map[string]string{}, map[string]string{}
	for i, root := range roots[:2] {
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]+);`).FindAllStringSubmatch(root[1], -1) {
			dark[m[1]] = m[2]
			if i == 0 {
				light[m[1]] = m[2]
			}
		}
	}
	return light, dark
}

// contrast is the ratio of two colors' luminances, as WCAG 2.2 defines it.
func contrast(t *testing.T, colors map[string]string, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, colors[a]), luminance(t, colors[b])
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	digits := strings.TrimPrefix(color, "#")
	if len(digits) == 3 {
		digits = fmt.Sprintf("%c%c%c%c%c%c", digits[0], digits[0], digits[1], digits[1], digits[2], digits[2])
	}
	if len(digits) != 6 {
		t.Fatalf("%q is not a color", color)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(digits[2*i:2*i+2], 16, 8)
		must(t, err)
		v := float64(n) / 255
		if v <= 0.04045 {
			v /= 12.92
		} else {
			v = math.Pow((v+0.055)/1.055, 2.4)
		}
		sum += weight * v
	}
	return sum
}
