//! The files of the page: written by page/build.mjs.

use super::File;

/// A hash over all files.
pub(in crate::http) const BUILD: &str = "c45de5e63c430ed8";

pub(super) static INDEX: File = File {
    name: "index.html",
    content_type: "text/html; charset=utf-8",
    is_gzip: false,
    bytes: include_bytes!("index.html"),
};

pub(super) static FILES: [File; 42] = [
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
        name: "main-C5DL4OFA.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("main-C5DL4OFA.js.gz"),
    },
    File {
        name: "part-2B35R2LV.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2B35R2LV.js.gz"),
    },
    File {
        name: "part-2LRBZ7LU.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2LRBZ7LU.js.gz"),
    },
    File {
        name: "part-4JFG6AEG.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-4JFG6AEG.js.gz"),
    },
    File {
        name: "part-4MNHL27J.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-4MNHL27J.js.gz"),
    },
    File {
        name: "part-5SNSI3PF.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-5SNSI3PF.js.gz"),
    },
    File {
        name: "part-6MMTRCVX.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-6MMTRCVX.js.gz"),
    },
    File {
        name: "part-AFGEWRJS.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AFGEWRJS.js.gz"),
    },
    File {
        name: "part-AQ7GVDOU.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AQ7GVDOU.js.gz"),
    },
    File {
        name: "part-AUS36S46.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-AUS36S46.js.gz"),
    },
    File {
        name: "part-BX67QQG6.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-BX67QQG6.js.gz"),
    },
    File {
        name: "part-DPQAJUSG.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-DPQAJUSG.js.gz"),
    },
    File {
        name: "part-DSYX7K6I.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-DSYX7K6I.js.gz"),
    },
    File {
        name: "part-ENCMDPLN.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-ENCMDPLN.js.gz"),
    },
    File {
        name: "part-EYQDDQMQ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-EYQDDQMQ.js.gz"),
    },
    File {
        name: "part-GS3X5JPQ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-GS3X5JPQ.js.gz"),
    },
    File {
        name: "part-GTE2Z2TZ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-GTE2Z2TZ.js.gz"),
    },
    File {
        name: "part-GURYZ4GC.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-GURYZ4GC.js.gz"),
    },
    File {
        name: "part-JSRAYVFO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-JSRAYVFO.js.gz"),
    },
    File {
        name: "part-KX4SXVOC.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-KX4SXVOC.js.gz"),
    },
    File {
        name: "part-M2744CXK.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-M2744CXK.js.gz"),
    },
    File {
        name: "part-MS2U57ZL.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-MS2U57ZL.js.gz"),
    },
    File {
        name: "part-NAAQQW54.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NAAQQW54.js.gz"),
    },
    File {
        name: "part-NDMTVT46.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NDMTVT46.js.gz"),
    },
    File {
        name: "part-NIR2KS25.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NIR2KS25.js.gz"),
    },
    File {
        name: "part-NUJJS637.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NUJJS637.js.gz"),
    },
    File {
        name: "part-PMV5DQJX.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-PMV5DQJX.js.gz"),
    },
    File {
        name: "part-QCNFGDR3.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-QCNFGDR3.js.gz"),
    },
    File {
        name: "part-QGUXCGWA.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-QGUXCGWA.js.gz"),
    },
    File {
        name: "part-R2IEONMN.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-R2IEONMN.js.gz"),
    },
    File {
        name: "part-RPMN7FNU.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-RPMN7FNU.js.gz"),
    },
    File {
        name: "part-RUV2MUYN.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-RUV2MUYN.js.gz"),
    },
    File {
        name: "part-VGPSZJWH.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-VGPSZJWH.js.gz"),
    },
    File {
        name: "part-VZX33THX.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-VZX33THX.js.gz"),
    },
    File {
        name: "part-WK5YE2QO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WK5YE2QO.js.gz"),
    },
    File {
        name: "part-WKKKNPOB.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WKKKNPOB.js.gz"),
    },
    File {
        name: "part-XBHX7OML.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-XBHX7OML.js.gz"),
    },
    File {
        name: "part-XHFOVOG3.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-XHFOVOG3.js.gz"),
    },
    File {
        name: "part-YGE37CJT.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YGE37CJT.js.gz"),
    },
    File {
        name: "style-562UYHEA.css",
        content_type: "text/css; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("style-562UYHEA.css.gz"),
    },
];
