// Package theme holds the themes of sites. A theme is one style sheet: README.md
// describes the structure of the pages and the properties that a theme sets.
package theme

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"bakeoff/base/fault"
	"bakeoff/base/lists"
)

//go:embed base.css */theme.css
var files embed.FS

// Default is the theme of a site that names none.
const Default = "default"

// Theme is a style sheet.
type Theme struct {
	Name, About string
	CSS         string // without the base
}

// readTheme returns the theme in the folder of its name.
func readTheme(name, about string) Theme {
	text, err := files.ReadFile(name + "/theme.css")
	if err != nil {
		panic(err) // all.go names a folder that does not exist
	}
	return Theme{Name: name, About: about, CSS: string(text)}
}

// Base is what all themes stand on: dark mode, reduced motion, print, writing from right
// to left.
func Base() string {
	text, err := files.ReadFile("base.css")
	if err != nil {
		panic(err) // it is in this program
	}
	return string(text)
}

// Style is the style sheet of a site.
func Style(t Theme) []byte { return []byte(Base() + "\n/* theme " + t.Name + " */\n" + t.CSS) }

// Names returns the names of all themes.
func Names() []string {
	out := lists.Map(All(), func(t Theme) string { return t.Name })
	slices.Sort(out)
	return out
}

// Find returns the theme of a name. An unknown name is an error of kind fault.Invalid.
func Find(name string) (Theme, error) {
	for _, t := range All() {
		if t.Name == name {
			return t, nil
		}
	}
	return Theme{}, fault.WithFix(fault.New(fault.Invalid, "no theme is named %q", name),
		fmt.Sprintf("use %s or random", strings.Join(Names(), ", ")))
}
