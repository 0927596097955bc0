package rest

import (
	"strings"
	"testing"

	"golang.org/x/net/html"

	"bakeoff/base/fault"
)

func TestToHTML(t *testing.T) {
	for in, want := range map[string]string{
		"A *b* **c** ``d < e`` `f`:": "<p>A <em>b</em> <strong>c</strong> " +
			"<code>d &lt; e</code> <cite>f</cite>:</p>\n",
		"One\nline, 2 * 3 * 4, a_b_c.":                   "<p>One\nline, 2 * 3 * 4, a_b_c.</p>\n",
		"Title\n=====\n\nSub\n---\n\nText\n\nNext\n====": "<h1>Title</h1>\n<h2>Sub</h2>\n<p>Text</p>\n<h1>Next</h1>\n",
		"====\nOver\n====\n":                             "<h1>Over</h1>\n",
		"- a\n  b\n- c\n\n  - d\n\nE": "<ul><li>a\nb</li>\n" +
			"<li><p>c</p>\n<ul><li>d</li>\n</ul>\n</li>\n</ul>\n<p>E</p>\n",
		"3. a\n4. b":                    "<ol start=\"3\"><li>a</li>\n<li>b</li>\n</ol>\n",
		"Code::\n\n  a\n\n    b\n\nEnd": "<p>Code:</p>\n<pre><code>a\n\n  b\n</code></pre>\n<p>End</p>\n",
		"::\n\n  a":                     "<pre><code>a\n</code></pre>\n",
		".. code-block:: go\n   :linenos:\n\n   x := 1": "<pre><code class=\"language-go\">x := 1\n</code></pre>\n",
		"`A b <https://x.example/?a&b>`_ and `A b`_.": "<p><a href=\"https://x.example/?a&amp;b\">A b</a> and " +
			"<a href=\"https://x.example/?a&amp;b\">A b</a>.</p>\n",
		"See Nikola_ (https://a.example/x_y).\n\n.. _nikola: https://n.example": "<p>See <a href=\"https://n.example\">" +
			"Nikola</a> (<a href=\"https://a.example/x_y\">https://a.example/x_y</a>).</p>\n",
		".. image:: /a.png\n   :alt: A\n": "<figure><img src=\"/a.png\" alt=\"A\"></figure>\n",
		".. figure:: a.png\n\n   Text": "<figure>" +
			"<img src=\"a.png\" alt=\"\"><figcaption><p>Text</p>\n</figcaption>\n</figure>\n",
		".. note:: Read\n   this":       "<blockquote><p><strong>Note</strong></p>\n<p>Read\nthis</p>\n</blockquote>\n",
		".. a comment\n   goes on\n\nx": "<p>x</p>\n",
		"term\n  text":                  "<dl><dt>term</dt><dd><p>text</p>\n</dd>\n</dl>\n",
		"| a\n| b":                      "<p>a<br>\nb</p>\n",
		"a\n\n----\n\nb":                "<p>a</p>\n<hr>\n<p>b</p>\n",
		"  quoted":                      "<blockquote><p>quoted</p>\n</blockquote>\n",
		"=== ===\na   b\n=== ===\n1   2\n=== ===\n": "<table><tr><th>a</th><th>b</th></tr>\n" +
			"<tr><td>1</td><td>2</td></tr>\n</table>\n",
		"\\*x\\* re\\ ``y``":           "<p>*x* re<code>y</code></p>\n",
		"<b>x</b>":                     "<p>&lt;b&gt;x&lt;/b&gt;</p>\n",
		".. raw:: html\n\n   <b>x</b>": "<b>x</b>\n",
	} {
		got, err := ToHTML(in, "a.rst", 1)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
}

// What would be lost is an error that names the line.
func TestRefused(t *testing.T) {
	for in, want := range map[string]string{
		"x\n\n.. csv-table:: y":         "a.rst:12: ",
		"x\n\n+--+\n|a |\n+--+":         "a.rst:12: ",
		"x [1]_":                        "a.rst:10: ",
		".. [1] note":                   "a.rst:10: ",
		"a |sub| b":                     "a.rst:10: ",
		".. |sub| replace:: x":          "a.rst:10: ",
		"x :doc:`y`":                    "a.rst:10: ",
		"`nowhere`_":                    "a.rst:10: ",
		"`anonymous`__":                 "a.rst:10: ",
		":field: x":                     "a.rst:10: ",
		".. raw:: latex\n\n   x":        "a.rst:10: ",
		"=== ===\na   b\n":              "a.rst:10: ",
		"x::\n\ny":                      "a.rst:10: ",
		strings.Repeat("- ", 200) + "x": "a.rst:10: ",
	} {
		_, err := ToHTML(in, "a.rst", 10)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || fault.Fix(err) == "" {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// Whatever a text is, what it says in letters is in the HTML, and nothing but raw HTML and code
// gives an element that the package does not write.
func FuzzToHTML(f *testing.F) {
	for _, s := range []string{"A *b*\n\n- c\n\n  d\n", "T\n=\n\n::\n\n  x", "1. a\n   b\n#. c",
		"== ==\na  b\n== ==\n1  2\n== ==",
		".. note::\n   x\n\n.. image:: a\n   :alt: b", "`a <b>`_ c_\n\n.. _c: d", "\\",
		"x\n y\n  z\n", "| a\n|b", ">>> x\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out, err := ToHTML(s, "a.rst", 1)
		if err != nil || strings.Contains(s, "raw::") {
			return
		}
		z := html.NewTokenizer(strings.NewReader(out))
		for kind := z.Next(); kind != html.ErrorToken; kind = z.Next() {
			name, _ := z.TagName()
			if kind == html.StartTagToken && (string(name) == "script" || string(name) == "iframe") {
				t.Errorf("%q gives %q", s, out)
			}
		}
	})
}
