//! The files of the page: written by page/build.mjs.

use super::File;

/// A hash over all files.
pub(in crate::http) const BUILD: &str = "a89f5c8fc75b158b";

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
        name: "main-J3U5GHPB.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("main-J3U5GHPB.js.gz"),
    },
    File {
        name: "part-2B35R2LV.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-2B35R2LV.js.gz"),
    },
    File {
        name: "part-4AHZ33VA.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-4AHZ33VA.js.gz"),
    },
    File {
        name: "part-52CFEYHQ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-52CFEYHQ.js.gz"),
    },
    File {
        name: "part-5CPQXR6N.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-5CPQXR6N.js.gz"),
    },
    File {
        name: "part-6DRD45VF.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-6DRD45VF.js.gz"),
    },
    File {
        name: "part-6IGFAEZ4.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-6IGFAEZ4.js.gz"),
    },
    File {
        name: "part-6KZJH6QI.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-6KZJH6QI.js.gz"),
    },
    File {
        name: "part-ADNSI2WE.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-ADNSI2WE.js.gz"),
    },
    File {
        name: "part-CQO3NNJM.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-CQO3NNJM.js.gz"),
    },
    File {
        name: "part-EVCOUSM7.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-EVCOUSM7.js.gz"),
    },
    File {
        name: "part-KKRXSKPO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-KKRXSKPO.js.gz"),
    },
    File {
        name: "part-MS2ZQM2I.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-MS2ZQM2I.js.gz"),
    },
    File {
        name: "part-NVDSH5AO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-NVDSH5AO.js.gz"),
    },
    File {
        name: "part-P6H7T24C.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-P6H7T24C.js.gz"),
    },
    File {
        name: "part-PRMH6X5T.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-PRMH6X5T.js.gz"),
    },
    File {
        name: "part-Q4B3YEBM.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-Q4B3YEBM.js.gz"),
    },
    File {
        name: "part-QDJ3PKLV.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-QDJ3PKLV.js.gz"),
    },
    File {
        name: "part-REAUYXZD.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-REAUYXZD.js.gz"),
    },
    File {
        name: "part-RO3W4OKR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-RO3W4OKR.js.gz"),
    },
    File {
        name: "part-UF357GOZ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-UF357GOZ.js.gz"),
    },
    File {
        name: "part-UX4CCXYE.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-UX4CCXYE.js.gz"),
    },
    File {
        name: "part-V37KSNLJ.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-V37KSNLJ.js.gz"),
    },
    File {
        name: "part-VYXU6A5I.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-VYXU6A5I.js.gz"),
    },
    File {
        name: "part-WI6P6VJR.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WI6P6VJR.js.gz"),
    },
    File {
        name: "part-WVQM34S3.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-WVQM34S3.js.gz"),
    },
    File {
        name: "part-X3ZDDD6E.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-X3ZDDD6E.js.gz"),
    },
    File {
        name: "part-YJI6ZDJI.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YJI6ZDJI.js.gz"),
    },
    File {
        name: "part-YMKEXTOO.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YMKEXTOO.js.gz"),
    },
    File {
        name: "part-YPZUV4IM.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-YPZUV4IM.js.gz"),
    },
    File {
        name: "part-Z5RS6AHN.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-Z5RS6AHN.js.gz"),
    },
    File {
        name: "part-ZJDTYUPG.js",
        content_type: "text/javascript; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("part-ZJDTYUPG.js.gz"),
    },
    File {
        name: "style-JXGKUG37.css",
        content_type: "text/css; charset=utf-8",
        is_gzip: true,
        bytes: include_bytes!("style-JXGKUG37.css.gz"),
    },
];
