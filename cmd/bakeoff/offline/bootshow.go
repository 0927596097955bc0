package offline

import (
	"bytes"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"bakeoff/base/fault"
	"bakeoff/cmd/bakeoff/cli"
	"bakeoff/measure/boot"
	"bakeoff/measure/boot/advice"
	"bakeoff/publish/bootpage"
)

// bootFiles are the flags of commands that show boots.
type bootFiles struct {
	html, svg string
	json      bool
}

func (a reader) bootShow() *cobra.Command {
	var choice BootChoice
	var to bootFiles
	c := &cobra.Command{
		Use:   "show FILE|RUN",
		Short: "Show where the time of a boot went",
		Long: `show prints the marks (named moments) that the boot reached, and the spans (intervals, such
as calls of functions) with the longest own time. The own time of a span is its time without
the spans inside it. show also prints what is missing from the recording, and how to shorten
the boot. FILE is a recording, or a file of the sources that bakeoff boot --help lists; -
reads standard input. From a RUN, show prints one boot.

--html writes a page with a flame chart that can be searched and zoomed, the marks with
their uncertainty, a table of all spans, and a tree of all spans. The page is one file that
loads no other file. It is complete without JavaScript.`,
		Example: `  dmesg | bakeoff boot show -
  bakeoff boot show dmesg.txt --html boot.html
  bakeoff boot show tslog.txt --svg boot.svg
  bakeoff boot show runs/20260102T030405Z-boot --contender microvm`,
		Args: cli.Between(1, 1, "a file or a run"),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := ReadBoot(a.In, args[0], choice)
			if err != nil {
				return err
			}
			b := bootpage.Boot{Name: bootName(args[0], choice), Recording: r, Advice: advice.Find(r), Version: a.version}
			return a.writeBoot(to, func(w io.Writer) error { return bootpage.Write(w, b) },
				func(w io.Writer) error { return bootpage.SVG(w, b) },
				func(w io.Writer) error { return boot.Write(w, r) },
				func(w io.Writer) error { return bootpage.Text(w, b, a.TextWidth()) })
		},
	}
	choice.Flags(c)
	to.addFlags(c, "the recording")
	c.Flags().StringVar(&to.svg, "svg", "", "write the flame chart alone to `file`")
	return c
}

func (f *bootFiles) addFlags(c *cobra.Command, what string) {
	c.Flags().StringVar(&f.html, "html", "", "write a page to `file`")
	c.Flags().BoolVar(&f.json, "json", false, "print "+what+" as JSON")
}

// bootName is how pages call a boot.
func bootName(arg string, choice BootChoice) string {
	name := filepath.Base(arg)
	if arg == "-" {
		name = "standard input"
	}
	if choice.Contender != "" {
		name += ", " + choice.Contender
	}
	return name
}

// writeBoot writes the files that the flags ask for, or else JSON or text.
func (a reader) writeBoot(to bootFiles, page, svg, asJSON, text func(io.Writer) error) error {
	for _, f := range []struct {
		name  string
		write func(io.Writer) error
	}{{to.html, page}, {to.svg, svg}} {
		if f.name == "" {
			continue
		}
		var b bytes.Buffer
		if err := f.write(&b); err != nil {
			return err
		}
		if err := replaceFile(f.name, b.Bytes()); err != nil {
			return fault.Op("write", err)
		}
	}
	switch {
	case to.json:
		return asJSON(a.Out)
	case to.html != "" || to.svg != "":
		return nil
	}
	return text(a.Out)
}
