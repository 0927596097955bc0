package spec

import (
	"maps"
	"slices"
	"strings"

	"bakeoff/base/lazy"
)

// xkbLayouts are the layouts of XKB. Sources: base.lst of xkb-data 2.35 (Debian 12), and KeyboardNames.pl of
// keyboard-configuration 1.242 (Debian 13).
const xkbLayouts = `af|al|am|ara|at|au|az|ba|bd|be|bg|br|brai|bt|bw|by|ca|cd|ch|cm|cn|cz|de|dk|dz|ee|eg|epo|es|et|fi` +
	`|fo|fr|gb|ge|gh|gn|gr|hr|hu|id|ie|il|in|iq|ir|is|it|jp|jv|ke|kg|kh|kr|kz|la|latam|lk|lt|lv|ma|mao|md|me|mk|ml|mm` +
	`|mn|mt|mv|my|ng|nl|no|np|nz|ph|pk|pl|pt|ro|rs|ru|se|si|sk|sn|sy|tg|th|tj|tm|tr|tw|tz|ua|us|uz|vn|za`

// consoleKeymaps are layout and variant of XKB for keymaps of the Linux console with other names. Source: the
// configuration script of keyboard-configuration 1.242, which translates the keymap of Debian's installer.
var consoleKeymaps = map[string][2]string{"be2": {"be"}, "br-abnt2": {"br", "abnt2"},
	"cf": {"ca", "fr"}, "croat": {"hr"},
	"cz-lat2": {"cz"}, "de-latin1-nodeadkeys": {"de", "nodeadkeys"}, "dvorak": {"us", "dvorak"},
	"fr-latin9": {"fr", "latin9"}, "fr_CH": {"ch", "fr"}, "fr_CH-latin1": {"ch", "fr"}, "jp106": {"jp", "106"},
	"kr104": {"kr", "kr104"}, "kr106": {"kr"}, "la-latin1": {"latam"}, "lv-latin4": {"lv"}, "sg": {"ch", "de"},
	"sg-latin1": {"ch", "de"}, "sk-qwerty": {"sk", "qwerty"}, "slovene": {"si"}, "sr-cy": {"rs"}, "trf": {"tr", "f"},
	"trq": {"tr"}, "uk": {"gb"}}

// debianKeymap matches what XKB translates.
var debianKeymap = lazy.Compile(`^((` + xkbLayouts + `)(-latin1)?|` +
	strings.Join(slices.Sorted(maps.Keys(consoleKeymaps)), "|") + `)$`)

// XKB returns the layout and the variant of XKB for a keymap of Debian, which names a layout of XKB or a keymap of
// the Linux console. The variant may be "".
func XKB(keymap string) (layout, variant string) {
	if x, ok := consoleKeymaps[keymap]; ok {
		return x[0], x[1]
	}
	return strings.TrimSuffix(keymap, "-latin1"), ""
}

// keymapOf is what a keymap looks like: Debian's console reads a layout of XKB, and that of Void a keymap of its own.
func keymapOf(recipe string) *lazy.Regexp {
	if recipe == "debian-zfs" {
		return debianKeymap
	}
	return word
}
