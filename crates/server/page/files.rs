//! The files of the page: written by page/build.mjs.

use super::File;

/// A hash over all files.
pub(in crate::http) const BUILD: &str = "fee79a857d7fb0f8";

pub(super) static INDEX: File = File {
    name: "index.html",
    content_type: "text/html; charset=utf-8",
    is_gzip: false,
    bytes: include_bytes!("index.html"),
};

pub(super) static FILES: [File; 35] = [
    File {
        name: "icon-8356FA75.svg",
        content_type: "image/svg+xml",
        is_gzip: true,
        bytes: include_bytes!("icon-8356FA75.svg.gz"),
    },
    File {
        name: "licences-04F1E6CB.txt",
        content_type: "text/plain; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("licences-04F1E6CB.txt.gz"),
    },
    File {
        name: "main-IIJQY2DI.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("main-IIJQY2DI.js.gz"),
    },
    File {
        name: "part-2B35R2LV.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2B35R2LV.js.gz"),
    },
    File {
        name: "part-2CIA5U2L.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2CIA5U2L.js.gz"),
    },
    File {
        name: "part-2QSG74DI.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2QSG74DI.js.gz"),
    },
    File {
        name: "part-57YF3SOR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-57YF3SOR.js.gz"),
    },
    File {
        name: "part-6H7CGMLH.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-6H7CGMLH.js.gz"),
    },
    File {
        name: "part-764RYYDH.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-764RYYDH.js.gz"),
    },
    File {
        name: "part-AH2OW3LA.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AH2OW3LA.js.gz"),
    },
    File {
        name: "part-AY3JGRKW.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AY3JGRKW.js.gz"),
    },
    File {
        name: "part-B3W4IJUG.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-B3W4IJUG.js.gz"),
    },
    File {
        name: "part-CTYFDR5N.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-CTYFDR5N.js.gz"),
    },
    File {
        name: "part-EBOPFVTM.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-EBOPFVTM.js.gz"),
    },
    File {
        name: "part-EDD2NSYX.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-EDD2NSYX.js.gz"),
    },
    File {
        name: "part-ELZX22SI.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-ELZX22SI.js.gz"),
    },
    File {
        name: "part-EVCOUSM7.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-EVCOUSM7.js.gz"),
    },
    File {
        name: "part-FNRKVKE6.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-FNRKVKE6.js.gz"),
    },
    File {
        name: "part-HVRQR3TO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-HVRQR3TO.js.gz"),
    },
    File {
        name: "part-IQB22ZRO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-IQB22ZRO.js.gz"),
    },
    File {
        name: "part-IQO55FMH.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-IQO55FMH.js.gz"),
    },
    File {
        name: "part-PFS5KGV2.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-PFS5KGV2.js.gz"),
    },
    File {
        name: "part-T4T2YF6R.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-T4T2YF6R.js.gz"),
    },
    File {
        name: "part-UC2S5JJP.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-UC2S5JJP.js.gz"),
    },
    File {
        name: "part-UX4CCXYE.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-UX4CCXYE.js.gz"),
    },
    File {
        name: "part-UXTFJHKS.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-UXTFJHKS.js.gz"),
    },
    File {
        name: "part-WFNRQT7J.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WFNRQT7J.js.gz"),
    },
    File {
        name: "part-WI6P6VJR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WI6P6VJR.js.gz"),
    },
    File {
        name: "part-Y74HC3RI.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-Y74HC3RI.js.gz"),
    },
    File {
        name: "part-YDR3D2GQ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YDR3D2GQ.js.gz"),
    },
    File {
        name: "part-YM7TNXYW.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YM7TNXYW.js.gz"),
    },
    File {
        name: "part-YMAWF3QS.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YMAWF3QS.js.gz"),
    },
    File {
        name: "part-YPZUV4IM.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YPZUV4IM.js.gz"),
    },
    File {
        name: "part-ZLLRSFMB.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-ZLLRSFMB.js.gz"),
    },
    File {
        name: "style-JTNKHKXV.css",
        content_type: "text/css; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("style-JTNKHKXV.css.gz"),
    },
];
