package spec

import (
	"time"
	_ "time/tzdata" // names of time zones, where the machine has none

	"bakeoff/base/lazy"
)

// hostZones matches names that only this machine may have: its own time zone, and forms of zones that some systems
// install.
var hostZones = lazy.Compile(`^(Local|localtime|posixrules|US/Pacific-New|(posix|right|SystemV)/.*)$`)

// zoneExists reports whether the database of time zones has a name.
func zoneExists(name string) bool {
	_, err := time.LoadLocation(name)
	return err == nil && !hostZones.MatchString(name)
}

// legacyZones are the time zones of tzdata 2025b of Debian 12 that Debian 13 has in the package tzdata-legacy.
var legacyZones = lazy.Compile(`^(Africa/Asmera|America/Argentina/ComodRivadavia|` +
	`America/(Buenos_Aires|Catamarca|Cordoba|Fort_Wayne|Godthab|` +
	`Indianapolis|Jujuy|Knox_IN|Louisville|Mendoza|Rosario)|Antarctica/South_Pole|Asia/(Ashkhabad|Calcutta|` +
	`Choibalsan|Chungking|Dacca|Katmandu|Macao|Rangoon|Saigon|Thimbu|Ujung_Pandang|Ulan_Bator)|Atlantic/Faeroe|` +
	`Australia/(ACT|LHI|NSW|North|Queensland|South|Tasmania|Victoria|West)|Brazil/(Acre|DeNoronha|East|West)|CET|` +
	`CST6CDT|Cuba|EET|EST|EST5EDT|Egypt|Eire|GB|GB-Eire|GMT\+0|GMT-0|GMT0|Greenwich|HST|Hongkong|Iceland|Iran|` +
	`Israel|Jamaica|Japan|Kwajalein|Libya|MET|MST|MST7MDT|NZ|NZ-CHAT|Navajo|PRC|PST8PDT|Poland|Portugal|ROC|ROK|` +
	`Singapore|Turkey|UCT|Universal|W-SU|WET|Zulu|Canada/(Atlantic|Central|Eastern|Mountain|Newfoundland|Pacific|` +
	`Saskatchewan|Yukon)|Chile/(Continental|EasterIsland)|Europe/(Kiev|Uzhgorod|Zaporozhye)|Mexico/(BajaNorte|` +
	`BajaSur|General)|Pacific/(Enderbury|Ponape|Truk)|US/(Alaska|Aleutian|Arizona|Central|East-Indiana|Eastern|` +
	`Hawaii|Indiana-Starke|Michigan|Mountain|Pacific|Samoa))$`)

// LegacyZone reports whether a time zone has an old name, which Debian 13 has in the package tzdata-legacy.
func LegacyZone(name string) bool { return legacyZones.MatchString(name) }
